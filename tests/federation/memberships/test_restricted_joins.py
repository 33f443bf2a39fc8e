"""Restricted joins: the allowed rooms, and the authoriser."""

from collections.abc import Mapping

import pytest

from federation.auth_rules.room_state import RoomState
from federation.matrix.errors import MatrixError
from federation.memberships.restricted_joins import (
    AuthorisedBy,
    NoAuthoriserNeeded,
    allowed_rooms,
    find_authoriser,
    find_join_authoriser,
)
from tests.federation.standing import OTHER_ROOM, VERSIONS, restricted_room
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, public_room

SECOND = "!second:a.example"
every_version = pytest.mark.parametrize("version", VERSIONS)


def outcome(room: Room, memberships: Mapping[str, object], user: str = BOB, server: str = "a.example") -> object:
    return find_join_authoriser(user, room.state(), room.version, memberships, server)


@every_version
@pytest.mark.parametrize("rule", ["restricted", "knock_restricted"])
def test_a_member_of_an_allowed_room_gets_an_authoriser(version: str, rule: str) -> None:
    """One condition is enough; the authoriser is a local user who may invite."""
    room = restricted_room(version, SECOND, OTHER_ROOM, rule=rule)
    assert allowed_rooms(room.state(), room.version) == (SECOND, OTHER_ROOM)
    assert outcome(room, {OTHER_ROOM: "join"}) == AuthorisedBy(ALICE)


@every_version
@pytest.mark.parametrize("membership", [None, "leave", "invite", "knock", "ban", 5])
def test_a_user_who_fails_all_conditions_is_forbidden(version: str, membership: object) -> None:
    """403: this server is in every allowed room, so it knows that the user is in none."""
    room = restricted_room(version, OTHER_ROOM)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        outcome(room, {OTHER_ROOM: membership})


def test_a_restricted_room_without_conditions() -> None:
    """403: there is no condition that another server could check."""
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        outcome(restricted_room("11"), {})


def test_a_server_that_cannot_check_all_conditions() -> None:
    """400 M_UNABLE_TO_AUTHORISE_JOIN, if the user may be in one of the other rooms."""
    room = restricted_room("11", OTHER_ROOM, SECOND)
    for memberships in ({}, {OTHER_ROOM: "leave"}):
        with pytest.raises(MatrixError, match="400 M_UNABLE_TO_AUTHORISE_JOIN"):
            outcome(room, memberships)


@every_version
def test_a_server_without_a_user_who_may_invite(version: str) -> None:
    """400 M_UNABLE_TO_GRANT_JOIN: a condition holds, but no local user can authorise the join."""
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
def test_invited_joined_and_banned_users_need_no_authoriser(version: str) -> None:
    """The auth rules decide about them without one."""
    room = restricted_room(version, OTHER_ROOM)
    room.member(ALICE, BOB, "invite")
    assert outcome(room, {}) == NoAuthoriserNeeded()
    assert outcome(room, {}, user=ALICE) == NoAuthoriserNeeded()
    room.member(ALICE, CAROL, "ban")
    assert outcome(room, {OTHER_ROOM: "join"}, user=CAROL) == NoAuthoriserNeeded()


def test_other_rooms_are_not_restricted() -> None:
    """Public rooms, and rooms of versions without restricted joins."""
    assert outcome(public_room("11"), {}) == NoAuthoriserNeeded()
    old = Room("7")
    old.join(ALICE)
    old.send("m.room.join_rules", ALICE, {"join_rule": "restricted"}, "")
    assert outcome(old, {}) == NoAuthoriserNeeded()
    assert allowed_rooms(old.state(), old.version) == ()
    assert allowed_rooms({}, old.version) == ()


def test_invalid_conditions_are_not_met() -> None:
    """An unknown type, a malformed entry, an invalid room id."""
    room = restricted_room("11")
    entries = [
        {"type": "org.example.riddle", "room_id": OTHER_ROOM},
        {"type": "m.room_membership"},
        {"type": "m.room_membership", "room_id": "room"},
        "everybody",
        {"type": "m.room_membership", "room_id": SECOND},
    ]
    room.send("m.room.join_rules", ALICE, {"join_rule": "restricted", "allow": entries}, "")
    assert allowed_rooms(room.state(), room.version) == (SECOND,)
    room.send("m.room.join_rules", ALICE, {"join_rule": "restricted", "allow": {}}, "")
    assert allowed_rooms(room.state(), room.version) == ()


@every_version
def test_the_authoriser_is_the_user_with_most_power(version: str) -> None:
    """Among the joined local users who may invite; of equals always the same one."""
    room = public_room(version, BOB, "@b1:b.example", "@b2:b.example", levels={"invite": 20})
    levels = {BOB: 50, "@b1:b.example": 60, "@b2:b.example": 60}
    if not room.version.creators_have_infinite_power:
        levels[ALICE] = 100
    room.power_levels(ALICE, {"users": levels, "invite": 20})
    state = RoomState(room.state(), room.create, room.version)
    assert find_authoriser(state, room.state(), "b.example") == "@b1:b.example"
    room.member("@b1:b.example", "@b1:b.example", "leave")
    assert find_authoriser(state, room.state(), "b.example") == "@b2:b.example"


def test_creators_of_other_servers_cannot_authorise() -> None:
    """Version 12: local creators count without being listed; otherwise a local user with the power to invite
    does."""
    room = public_room("12", BOB, CAROL, DAVE, levels={"invite": 50}, additional_creators=[DAVE])
    state = RoomState(room.state(), room.create, room.version)
    assert find_authoriser(state, room.state(), "d.example") == DAVE
    assert find_authoriser(state, room.state(), "b.example") == BOB
    assert find_authoriser(state, room.state(), "c.example") is None
