"""What kind of room something is said in."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.people.place import MOST_TOLD_APART, Kind, Members, Place, members_of, place_of
from tests.support.agents import address

NODE, WORKER, ALICE, BOB = "@palaver:here", "@worker:here", "@alice:there", "@bob:there"
AGENTS = {WORKER: address("worker@here")}


def is_ours(user: str) -> bool:
    return user.endswith(":here")


def place(*users: str, namespace: str | None = None, said: Any = None) -> Place:
    return place_of(
        "!room",
        members_of(users, is_ours),
        namespace=namespace,
        room_of_agents=said,
        node="here",
        node_user=NODE,
        agent_of=AGENTS.get,
    )


@pytest.mark.parametrize(
    ("users", "kind", "speakers"),
    [
        ((ALICE, WORKER), Kind.CHAT, (WORKER,)),
        ((ALICE, NODE), Kind.DESK, (NODE,)),
        ((ALICE, NODE, WORKER), Kind.ROOM, (NODE, WORKER)),
        ((ALICE, BOB, WORKER), Kind.ROOM, (WORKER,)),
        ((NODE, WORKER), Kind.ROOM, (NODE, WORKER)),
        ((ALICE, BOB), Kind.ROOM, ()),
        ((ALICE, "@somebody:here"), Kind.ROOM, ()),
    ],
)
def test_who_is_there_makes_a_room_what_it_is(
    users: tuple[str, ...], kind: Kind, speakers: tuple[str, ...]
) -> None:
    """Two of which one is ours are a chat."""
    found = place(*users)
    assert (found.kind, found.speakers) == (kind, speakers)
    assert found.partner == (AgentAddress("worker", "here") if kind is Kind.CHAT else None)


def test_a_room_of_agents_is_the_node_that_made_it() -> None:
    """What another node's room says of itself is believed only so far as that we keep out of it."""
    assert place(ALICE, NODE, namespace="default").kind is Kind.OWN
    assert place(ALICE, NODE, namespace="default").namespace == "default"
    assert place(ALICE, WORKER, said={"namespace": "default", "node": "kitchen"}).kind is Kind.FOREIGN
    assert place(ALICE, WORKER, said={"namespace": "default", "node": "here"}).kind is Kind.CHAT


@pytest.mark.parametrize("said", [{}, {"node": 7}, {"node": ""}, {"node": "no name"}, {"node": None}])
def test_state_may_be_anything(said: Any) -> None:
    """It makes no difference then."""
    assert place(ALICE, WORKER, said=said).kind is Kind.CHAT


def test_of_a_large_room_our_own_are_remembered() -> None:
    """No more."""
    users = [f"@u{number}:there" for number in range(MOST_TOLD_APART)]
    assert members_of([*users, WORKER], is_ours) == Members(None, frozenset({WORKER}))
    assert members_of(users, is_ours).all is not None
