"""Decisions about invites, joins and knocks."""

from typing import Any

import pytest

from bridge.people.invite_policy import Accept, Invite, InvitePolicy, Kick, MembershipAction, Refuse, decide
from bridge.people.permissions import Level, Rights
from federation.events.room_event import RoomEvent, StreamedEvent
from tests.support.agents import address

NODE, WORKER = "@palaver:here", "@worker:here"
ALICE, BOB, EVE = "@alice:there", "@bob:there", "@eve:there"
POLICY = InvitePolicy(
    NODE,
    lambda user: user.endswith(":here"),
    {WORKER: address("worker@here")}.get,
    {"!own"}.__contains__,
    {"!cis"}.__contains__,
    Rights({"*": Level.LOOK, ALICE: Level.WORK, EVE: Level.NONE}),
)


def decided(
    membership: object, user: str, sender: str | None = None, room_id: str = "!room", **more: Any
) -> MembershipAction | None:
    kind = more.pop("kind", "timeline")
    event = RoomEvent("$e", room_id, sender or user, "m.room.member", {"membership": membership}, 1, state_key=user)
    return decide(StreamedEvent(1, kind, event, **more), POLICY)


@pytest.mark.parametrize("kind", ["invite", "timeline"])
def test_an_agent_accepts_invites_of_people_with_work_permission(kind: str) -> None:
    """A rejection has the reason."""
    assert decided("invite", WORKER, ALICE, kind=kind) == Accept(WORKER)
    refused = decided("invite", WORKER, BOB, kind=kind)
    assert isinstance(refused, Refuse)
    assert 'the rule "*" = "look"' in refused.reason


def test_the_node_accepts_invites_of_people_with_look_permission() -> None:
    """They can send it commands."""
    assert decided("invite", NODE, BOB) == Accept(NODE)
    assert isinstance(decided("invite", NODE, EVE), Refuse)


def test_other_invites_are_ignored() -> None:
    """To rooms with a type or of a connector, of users that are not agents, and invites of this node."""
    create = {"type": "m.room.create", "state_key": "", "content": {"type": "io.a2c.office"}}
    assert decided("invite", WORKER, EVE, kind="invite", invite_state=(create,)) is None
    assert decided("invite", NODE, EVE, room_id="!cis") is None
    assert decided("invite", "@alice:here", ALICE) is None
    assert decided("invite", WORKER, NODE) is None
    assert decided("invite", BOB, ALICE) is None
    plain = {"type": "m.room.create", "state_key": "", "content": {}}
    assert decided("invite", WORKER, ALICE, kind="invite", invite_state=(plain,)) == Accept(WORKER)


def test_people_with_look_permission_can_join_an_agents_room() -> None:
    """A knock is answered with an invite. Others are kicked with the rule as reason."""
    assert decided("knock", BOB, room_id="!own") == Invite(BOB)
    assert decided("join", BOB, room_id="!own") is None
    for membership in ("knock", "join"):
        kicked = decided(membership, EVE, room_id="!own")
        assert isinstance(kicked, Kick)
        assert f'the rule "{EVE}" = "none"' in kicked.reason
        assert decided(membership, EVE) is None
        assert decided(membership, WORKER, room_id="!own") is None


@pytest.mark.parametrize("membership", ["leave", "ban", None, 7, {}])
def test_other_memberships_are_ignored(membership: object) -> None:
    """So are state events that are not new."""
    assert decided(membership, EVE, room_id="!own") is None
    assert decided("join", EVE, room_id="!own", kind="state") is None
    message = RoomEvent("$e", "!own", EVE, "m.room.message", {"membership": "join"}, 1)
    assert decide(StreamedEvent(1, "timeline", message), POLICY) is None
