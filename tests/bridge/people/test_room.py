"""The kinds of rooms."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.people.room import MAX_MEMBERS, Members, RoomContext, RoomKind, members_of, room_context
from tests.support.agents import address

NODE, WORKER, ALICE, BOB = "@palaver:here", "@worker:here", "@alice:there", "@bob:there"
AGENTS = {WORKER: address("worker@here")}


def is_local(user: str) -> bool:
    return user.endswith(":here")


def context(*users: str, namespace: str | None = None, said: Any = None) -> RoomContext:
    return room_context(
        "!room",
        members_of(users, is_local),
        namespace=namespace,
        agents_room_content=said,
        node="here",
        node_user=NODE,
        agent_of=AGENTS.get,
    )


@pytest.mark.parametrize(
    ("users", "kind", "senders"),
    [
        ((ALICE, WORKER), RoomKind.AGENT_CHAT, (WORKER,)),
        ((ALICE, NODE), RoomKind.NODE_CHAT, (NODE,)),
        ((ALICE, NODE, WORKER), RoomKind.OTHER, (NODE, WORKER)),
        ((ALICE, BOB, WORKER), RoomKind.OTHER, (WORKER,)),
        ((NODE, WORKER), RoomKind.OTHER, (NODE, WORKER)),
        ((ALICE, BOB), RoomKind.OTHER, ()),
        ((ALICE, "@somebody:here"), RoomKind.OTHER, ()),
    ],
)
def test_the_members_determine_the_kind(users: tuple[str, ...], kind: RoomKind, senders: tuple[str, ...]) -> None:
    """A room of two members, one of them local, is a direct chat."""
    found = context(*users)
    assert (found.kind, found.senders) == (kind, senders)
    assert found.chat_agent == (AgentAddress("worker", "here") if kind is RoomKind.AGENT_CHAT else None)


def test_an_agents_room_belongs_to_its_node() -> None:
    """The state event of a remote room only makes this node ignore its requests."""
    assert context(ALICE, NODE, namespace="default").kind is RoomKind.LOCAL_AGENTS
    assert context(ALICE, NODE, namespace="default").namespace == "default"
    assert context(ALICE, WORKER, said={"namespace": "default", "node": "kitchen"}).kind is RoomKind.REMOTE_AGENTS
    assert context(ALICE, WORKER, said={"namespace": "default", "node": "here"}).kind is RoomKind.AGENT_CHAT


@pytest.mark.parametrize("said", [{}, {"node": 7}, {"node": ""}, {"node": "no name"}, {"node": None}])
def test_invalid_state_is_ignored(said: Any) -> None:
    """It makes no difference then."""
    assert context(ALICE, WORKER, said=said).kind is RoomKind.AGENT_CHAT


def test_only_local_members_of_a_large_room_are_stored() -> None:
    """No more."""
    users = [f"@u{number}:there" for number in range(MAX_MEMBERS)]
    assert members_of([*users, WORKER], is_local) == Members(None, frozenset({WORKER}))
    assert members_of(users, is_local).all is not None
