"""Iterative auth checks."""

import pytest

from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.events import EventSource
from federation.state_resolution.resolve import AuthCheckResult, iterative_auth_checks
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room


def check_all(room: Room, into: list[Pdu], *pdus: Pdu) -> AuthCheckResult:
    state = AuthCheckResult({pdu.key or ("", ""): pdu.event_id for pdu in into})
    events = EventSource(room.events, None, (), room.version)
    iterative_auth_checks([pdu.event_id for pdu in pdus], state, room.rejected, events)
    assert events.missing == set()
    return state


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_each_event_is_checked_against_the_state_so_far(version: str) -> None:
    """A ban, and then an event of the banned user: the order decides."""
    room = public_room(version, BOB, CAROL)
    state, fork = list(room.state().values()), room.head
    topic = room.add(room.propose("m.room.topic", BOB, {"topic": "b"}, "", after=fork))
    ban = room.add(room.propose("m.room.member", ALICE, {"membership": "ban"}, BOB, after=fork))
    first_ban = check_all(room, state, ban, topic)
    assert ("m.room.topic", "") not in first_ban.state
    assert list(first_ban.refused) == [topic.event_id]
    first_topic = check_all(room, state, topic, ban)
    assert first_topic.state["m.room.topic", ""] == topic.event_id
    assert first_topic.refused == {}
    assert first_topic.state["m.room.member", BOB] == ban.event_id


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_missing_state_is_taken_from_the_auth_events(version: str) -> None:
    """Version 2.1 starts from an empty state; the create event of room version 12 is found by the room id."""
    room = public_room(version, BOB)
    topic = room.topic(BOB, "x")
    assert check_all(room, [], topic).state == {("m.room.topic", ""): topic.event_id}


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_rejected_auth_events_are_not_used(version: str) -> None:
    """ "… if the auth event is not rejected"; nor are rejected events of the state."""
    room = public_room(version, BOB)
    topic = room.topic(BOB, "x")
    room.rejected.add(room.state()["m.room.member", BOB].event_id)
    assert list(check_all(room, [], topic).refused) == [topic.event_id]
    in_state = check_all(room, [room.state()["m.room.member", BOB]], topic)
    assert list(in_state.refused) == [topic.event_id]


def test_a_rejected_event_is_skipped() -> None:
    """As in Synapse: an event that was rejected on receipt stays rejected."""
    room = public_room("12", BOB)
    topic = room.topic(BOB, "x")
    room.rejected.add(topic.event_id)
    assert check_all(room, list(room.state().values()), topic).refused == {}
    assert check_all(room, [], topic).state == {}


def test_a_rejected_create_event_authorises_nothing() -> None:
    """Room version 12 finds it by the room id, but not if it was rejected."""
    room = public_room("12", BOB)
    topic = room.topic(BOB, "x")
    room.rejected.add(room.create.event_id)
    assert list(check_all(room, [], topic).refused) == [topic.event_id]
