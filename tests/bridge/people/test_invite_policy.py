"""Who comes into which room."""

from typing import Any

import pytest

from bridge.people.invite_policy import Accept, Act, Door, LetIn, Refuse, ShowOut, decide
from bridge.people.permissions import Level, Rights
from federation.events.room_event import RoomEvent, StreamedEvent
from tests.support.agents import address

NODE, WORKER = "@palaver:here", "@worker:here"
ALICE, BOB, EVE = "@alice:there", "@bob:there", "@eve:there"
DOOR = Door(
    NODE,
    lambda user: user.endswith(":here"),
    {WORKER: address("worker@here")}.get,
    {"!own"}.__contains__,
    {"!cis"}.__contains__,
    Rights({"*": Level.LOOK, ALICE: Level.WORK, EVE: Level.NONE}),
)


def came(
    membership: object, user: str, sender: str | None = None, room_id: str = "!room", **more: Any
) -> Act | None:
    kind = more.pop("kind", "timeline")
    event = RoomEvent(
        "$e", room_id, sender or user, "m.room.member", {"membership": membership}, 1, state_key=user
    )
    return decide(StreamedEvent(1, kind, event, **more), DOOR)


@pytest.mark.parametrize("kind", ["invite", "timeline"])
def test_an_agent_comes_where_it_may_be_given_work(kind: str) -> None:
    """Whoever may not give it any is told why."""
    assert came("invite", WORKER, ALICE, kind=kind) == Accept(WORKER)
    refused = came("invite", WORKER, BOB, kind=kind)
    assert isinstance(refused, Refuse)
    assert 'the rule "*" = "look"' in refused.reason


def test_the_node_comes_to_whoever_may_look() -> None:
    """It can be asked what there is."""
    assert came("invite", NODE, BOB) == Accept(NODE)
    assert isinstance(came("invite", NODE, EVE), Refuse)


def test_invites_that_are_others_business_are_left_to_them() -> None:
    """Into rooms of a type, or of a connector; of users that are no agents; and what we do ourselves."""
    create = {"type": "m.room.create", "state_key": "", "content": {"type": "io.a2c.office"}}
    assert came("invite", WORKER, EVE, kind="invite", invite_state=(create,)) is None
    assert came("invite", NODE, EVE, room_id="!cis") is None
    assert came("invite", "@alice:here", ALICE) is None
    assert came("invite", WORKER, NODE) is None
    assert came("invite", BOB, ALICE) is None
    plain = {"type": "m.room.create", "state_key": "", "content": {}}
    assert came("invite", WORKER, ALICE, kind="invite", invite_state=(plain,)) == Accept(WORKER)


def test_who_may_look_is_let_into_a_room_of_agents() -> None:
    """Who knocks is invited, and who may not look is shown out, with the rule that decided."""
    assert came("knock", BOB, room_id="!own") == LetIn(BOB)
    assert came("join", BOB, room_id="!own") is None
    for membership in ("knock", "join"):
        shown_out = came(membership, EVE, room_id="!own")
        assert isinstance(shown_out, ShowOut)
        assert f'the rule "{EVE}" = "none"' in shown_out.reason
        assert came(membership, EVE) is None
        assert came(membership, WORKER, room_id="!own") is None


@pytest.mark.parametrize("membership", ["leave", "ban", None, 7, {}])
def test_whatever_else_happens_is_none_of_its_business(membership: object) -> None:
    """Nor are events that are no news."""
    assert came(membership, EVE, room_id="!own") is None
    assert came("join", EVE, room_id="!own", kind="state") is None
    message = RoomEvent("$e", "!own", EVE, "m.room.message", {"membership": "join"}, 1)
    assert decide(StreamedEvent(1, "timeline", message), DOOR) is None
