"""Joins for being in another room: which condition opens a room, and who vouches."""

from collections.abc import Mapping

import pytest

from federation.auth_rules.room_state import RoomState
from federation.matrix.errors import MatrixError
from federation.memberships.restricted_joins import (
    NotRestricted,
    VouchedFor,
    authorise,
    rooms_that_admit,
    who_may_invite,
)
from tests.federation.standing import OTHER_ROOM, VERSIONS, restricted_room
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, public_room

SECOND = "!second:a.example"
every_version = pytest.mark.parametrize("version", VERSIONS)


def outcome(
    room: Room, memberships: Mapping[str, object], user: str = BOB, server: str = "a.example"
) -> object:
    return authorise(user, room.state(), room.version, memberships, server)


@every_version
@pytest.mark.parametrize("rule", ["restricted", "knock_restricted"])
def test_a_member_of_a_named_room_is_vouched_for(version: str, rule: str) -> None:
    """One condition is enough; the user who vouches is ours and may invite."""
    room = restricted_room(version, SECOND, OTHER_ROOM, rule=rule)
    assert rooms_that_admit(room.state(), room.version) == (SECOND, OTHER_ROOM)
    assert outcome(room, {OTHER_ROOM: "join"}) == VouchedFor(ALICE)


@every_version
@pytest.mark.parametrize("membership", [None, "leave", "invite", "knock", "ban", 5])
def test_who_fails_all_conditions_is_forbidden(version: str, membership: object) -> None:
    """403: this server is in every room that is named, and knows that the user is in none."""
    room = restricted_room(version, OTHER_ROOM)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        outcome(room, {OTHER_ROOM: membership})


def test_a_room_that_names_no_conditions_opens_to_nobody() -> None:
    """There is nothing that this server could not check."""
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        outcome(restricted_room("11"), {})


def test_a_server_that_cannot_check_sends_on_to_another() -> None:
    """400 M_UNABLE_TO_AUTHORISE_JOIN, as long as one of the rooms might admit the user."""
    room = restricted_room("11", OTHER_ROOM, SECOND)
    for memberships in ({}, {OTHER_ROOM: "leave"}):
        with pytest.raises(MatrixError, match="400 M_UNABLE_TO_AUTHORISE_JOIN"):
            outcome(room, memberships)


@every_version
def test_a_server_without_anybody_who_may_invite_sends_on_to_another(version: str) -> None:
    """400 M_UNABLE_TO_GRANT_JOIN: a condition is met, but nobody here can vouch."""
    room = restricted_room(version, OTHER_ROOM, invite=50)
    room.send("m.room.join_rules", ALICE, {"join_rule": "public"}, "")
    room.join(CAROL)
    restricted = {"join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": OTHER_ROOM}]}
    room.send("m.room.join_rules", ALICE, restricted, "")
    with pytest.raises(MatrixError, match="400 M_UNABLE_TO_GRANT_JOIN"):
        outcome(room, {OTHER_ROOM: "join"}, server="c.example")
    with pytest.raises(MatrixError, match="400 M_UNABLE_TO_GRANT_JOIN"):
        outcome(room, {OTHER_ROOM: "join"}, server="d.example")


@every_version
def test_who_is_invited_joined_or_banned_needs_nobodys_word(version: str) -> None:
    """The rules decide about them without it."""
    room = restricted_room(version, OTHER_ROOM)
    room.member(ALICE, BOB, "invite")
    assert outcome(room, {}) == NotRestricted()
    assert outcome(room, {}, user=ALICE) == NotRestricted()
    room.member(ALICE, CAROL, "ban")
    assert outcome(room, {OTHER_ROOM: "join"}, user=CAROL) == NotRestricted()


def test_other_rooms_are_not_restricted() -> None:
    """Public ones, and those of versions that know nothing of it."""
    assert outcome(public_room("11"), {}) == NotRestricted()
    old = Room("7")
    old.join(ALICE)
    old.send("m.room.join_rules", ALICE, {"join_rule": "restricted"}, "")
    assert outcome(old, {}) == NotRestricted()
    assert rooms_that_admit(old.state(), old.version) == ()
    assert rooms_that_admit({}, old.version) == ()


def test_conditions_of_other_kinds_are_not_met() -> None:
    """An unknown type, an entry of no form, a room id that is none: nobody comes in by them."""
    room = restricted_room("11")
    entries = [
        {"type": "org.example.riddle", "room_id": OTHER_ROOM},
        {"type": "m.room_membership"},
        {"type": "m.room_membership", "room_id": "room"},
        "everybody",
        {"type": "m.room_membership", "room_id": SECOND},
    ]
    room.send("m.room.join_rules", ALICE, {"join_rule": "restricted", "allow": entries}, "")
    assert rooms_that_admit(room.state(), room.version) == (SECOND,)
    room.send("m.room.join_rules", ALICE, {"join_rule": "restricted", "allow": {}}, "")
    assert rooms_that_admit(room.state(), room.version) == ()


@every_version
def test_the_one_with_most_power_vouches(version: str) -> None:
    """Among those of this server who are joined and may invite; of equals always the same one."""
    room = public_room(version, BOB, "@b1:b.example", "@b2:b.example", levels={"invite": 20})
    levels = {BOB: 50, "@b1:b.example": 60, "@b2:b.example": 60}
    if not room.version.creators_have_infinite_power:
        levels[ALICE] = 100
    room.power_levels(ALICE, {"users": levels, "invite": 20})
    state = RoomState(room.state(), room.create, room.version)
    assert who_may_invite(state, room.state(), "b.example") == "@b1:b.example"
    room.member("@b1:b.example", "@b1:b.example", "leave")
    assert who_may_invite(state, room.state(), "b.example") == "@b2:b.example"


def test_creators_of_other_servers_do_not_matter() -> None:
    """Version 12: local creators count without being listed, and where all creators are elsewhere a local
    user with the power to invite does."""
    room = public_room("12", BOB, CAROL, DAVE, levels={"invite": 50}, additional_creators=[DAVE])
    state = RoomState(room.state(), room.create, room.version)
    assert who_may_invite(state, room.state(), "d.example") == DAVE
    assert who_may_invite(state, room.state(), "b.example") == BOB
    assert who_may_invite(state, room.state(), "c.example") is None
