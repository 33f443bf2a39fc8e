"""Iterative auth checks."""

import pytest

from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.events import EventSource
from federation.state_resolution.resolve import AuthCheckResult, iterative_auth_checks
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room


def replayed(room: Room, into: list[Pdu], *pdus: Pdu) -> AuthCheckResult:
    state = AuthCheckResult({pdu.key or ("", ""): pdu.event_id for pdu in into})
    events = EventSource(room.events, None, (), room.version)
    iterative_auth_checks([pdu.event_id for pdu in pdus], state, room.rejected, events)
    assert events.missing == set()
    return state


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_each_against_what_those_before_have_left(version: str) -> None:
    """A ban, and then what the banned user did: the order decides."""
    room = public_room(version, BOB, CAROL)
    state, fork = list(room.state().values()), room.head
    topic = room.add(room.propose("m.room.topic", BOB, {"topic": "b"}, "", after=fork))
    ban = room.add(room.propose("m.room.member", ALICE, {"membership": "ban"}, BOB, after=fork))
    first_ban = replayed(room, state, ban, topic)
    assert ("m.room.topic", "") not in first_ban.state
    assert list(first_ban.refused) == [topic.event_id]
    first_topic = replayed(room, state, topic, ban)
    assert first_topic.state["m.room.topic", ""] == topic.event_id
    assert first_topic.refused == {}
    assert first_topic.state["m.room.member", BOB] == ban.event_id


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_what_the_state_lacks_is_taken_from_the_event_s_own_auth_events(version: str) -> None:
    """Version 2.1 starts from nothing; the create event of version 12 is found by the room id."""
    room = public_room(version, BOB)
    topic = room.topic(BOB, "x")
    assert replayed(room, [], topic).state == {("m.room.topic", ""): topic.event_id}


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_rejected_auth_events_are_not_used(version: str) -> None:
    """ "… if the auth event is not rejected"; nor is a rejected event of the state."""
    room = public_room(version, BOB)
    topic = room.topic(BOB, "x")
    room.rejected.add(room.state()["m.room.member", BOB].event_id)
    assert list(replayed(room, [], topic).refused) == [topic.event_id]
    in_state = replayed(room, [room.state()["m.room.member", BOB]], topic)
    assert list(in_state.refused) == [topic.event_id]


def test_a_rejected_event_stays_out() -> None:
    """As in Synapse: what was rejected when it came stays rejected for good."""
    room = public_room("12", BOB)
    topic = room.topic(BOB, "x")
    room.rejected.add(topic.event_id)
    assert replayed(room, list(room.state().values()), topic).refused == {}
    assert replayed(room, [], topic).state == {}


def test_a_rejected_create_event_authorises_nothing() -> None:
    """Version 12 finds it by the room id, but its rejection counts."""
    room = public_room("12", BOB)
    topic = room.topic(BOB, "x")
    room.rejected.add(room.create.event_id)
    assert list(replayed(room, [], topic).refused) == [topic.event_id]
