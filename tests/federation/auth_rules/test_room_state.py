"""The state against which an event is checked."""

from typing import Any

import pytest

from federation.auth_rules.room_state import RoomState
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import ALICE, BOB, Room, public_room


def make_state(room: Room) -> RoomState:
    return RoomState(room.state(), room.create, room.version)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_an_empty_room(version: str) -> None:
    """There are no members, and the join rule is `invite`."""
    state = make_state(Room(version))
    assert state.join_rule == "invite"
    assert state.membership(ALICE) is None
    assert state.event("m.room.member", ALICE) is None
    assert state.levels.of_user(BOB) == 0


@pytest.mark.parametrize(
    ("content", "rule"), [({"join_rule": "knock"}, "knock"), ({}, "invite"), ({"join_rule": None}, None)]
)
def test_the_join_rule(content: dict[str, Any], rule: object) -> None:
    """The default is `invite`."""
    room = public_room("12")
    room.send("m.room.join_rules", ALICE, content, "")
    assert make_state(room).join_rule == rule


def test_memberships() -> None:
    """As in the member event, of any type."""
    room = public_room("12", BOB)
    assert make_state(room).membership(BOB) == "join"
    room.member(BOB, BOB, "leave")
    assert make_state(room).membership(BOB) == "leave"
    member = make_state(room).event("m.room.member", BOB)
    assert member is not None
    assert member.sender == BOB
