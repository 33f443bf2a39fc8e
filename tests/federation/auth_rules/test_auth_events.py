"""Rules 2 and 3: the room id and the auth events."""

import pytest

from federation.auth_rules import Allowed, Verdict, check_independent
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, Room, public_room


@refused_by("room_id")
def the_room_is_unknown(version: str) -> Verdict:
    room = public_room(version)
    return check_independent(room.propose("m.room.message", ALICE, {}), room.events, room.version)


@refused_by("room_id")
def the_room_was_rejected(version: str) -> Verdict:
    room = public_room(version)
    room.rejected.add(room.create.event_id)
    return room.verdict(room.propose("m.room.message", ALICE, {}))


@refused_by("room_id")
def the_room_is_another(version: str) -> Verdict:
    room, other = public_room(version), Room(version, creator=BOB)
    message = room.propose("m.room.message", ALICE, {})
    return check_independent(message, room.events, room.version, create=other.create)


@refused_by("room_id")
def the_room_id_is_of_another_event(version: str) -> Verdict:
    room = public_room(version)
    not_create = room.topic(ALICE, "x")
    room.room_id = "!" + not_create.event_id[1:]
    message = room.propose("m.room.message", ALICE, {}, auth=[])
    return check_independent(message, room.events, room.version, create=not_create)


@refused_by("auth_events.duplicate")
def the_same_twice(version: str) -> Verdict:
    room = public_room(version)
    levels = room.state()["m.room.power_levels", ""]
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=[*room.propose_auth(ALICE), levels]))


@refused_by("auth_events.duplicate")
def two_for_one_key(version: str) -> Verdict:
    room = public_room(version)
    old = room.state()["m.room.member", ALICE]
    room.member(ALICE, ALICE, "join", content={"displayname": "Alice"})
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=[*room.propose_auth(ALICE), old]))


@refused_by("auth_events.unexpected")
def the_membership_of_another_user(version: str) -> Verdict:
    room = public_room(version, BOB)
    bob = room.state()["m.room.member", BOB]
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=[*room.propose_auth(ALICE), bob]))


@refused_by("auth_events.unexpected")
def a_message(version: str) -> Verdict:
    room = public_room(version)
    message = room.say(ALICE)
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=[*room.propose_auth(ALICE), message]))


@refused_by("auth_events.unexpected")
def the_topic(version: str) -> Verdict:
    room = public_room(version)
    topic = room.topic(ALICE, "x")
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=[*room.propose_auth(ALICE), topic]))


@refused_by("auth_events.rejected")
def a_rejected_event(version: str) -> Verdict:
    room = public_room(version)
    room.rejected.add(room.state()["m.room.power_levels", ""].event_id)
    return room.verdict(room.propose("m.room.message", ALICE, {}))


@refused_by("auth_events.create")
def no_create_event(version: str) -> Verdict:
    room = public_room(version)
    auth = [pdu for pdu in room.propose_auth(ALICE) if pdu is not room.create]
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=auth))


@refused_by("auth_events.room_id")
def an_event_of_another_room(version: str) -> Verdict:
    room, other = public_room(version), public_room(version, content_of_create="different")
    if not room.version.create_event_is_room_id:
        other = Room(version, creator="@alice:other.example")
        other.join("@alice:other.example")
        foreign = other.propose("m.room.power_levels", "@alice:other.example", {}, "")
    else:
        foreign = other.state()["m.room.power_levels", ""]
    room.events[foreign.event_id] = foreign
    auth = [pdu for pdu in room.propose_auth(ALICE) if pdu.type != "m.room.power_levels"]
    return room.verdict(room.propose("m.room.message", ALICE, {}, auth=[*auth, foreign]))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_fewer_auth_events_are_accepted(version: str) -> None:
    """An event need not have all auth events that it may have."""
    room = public_room(version)
    auth = [room.create] if not room.version.create_event_is_room_id else []
    message = room.propose("m.room.message", ALICE, {}, auth=auth)
    assert isinstance(check_independent(message, room.events, room.version, create=room.create), Allowed)
