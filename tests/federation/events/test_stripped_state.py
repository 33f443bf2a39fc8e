"""Stripped state, sent and received."""

from typing import Any

import pytest

from federation.events.stripped_state import MAX_EVENTS, STATE_TYPES, parse_state, select_state, strip
from tests.federation.standing import VERSIONS
from tests.support.rooms import ALICE, BOB, Room, public_room

every_version = pytest.mark.parametrize("version", VERSIONS)
NAME = {"type": "m.room.name", "state_key": "", "sender": ALICE, "content": {"name": "Kitchen"}}


def events(room: Room) -> list[dict[str, Any]]:
    return [dict(pdu.event) for pdu in select_state(room.state(), ALICE)]


@every_version
def test_the_selected_state(version: str) -> None:
    """State that identifies the room, the create event first, and the inviting member."""
    room = public_room(version, BOB)
    room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
    room.topic(ALICE, "soup")
    types = [pdu.type for pdu in select_state(room.state(), ALICE)]
    assert types == ["m.room.create", "m.room.name", "m.room.topic", "m.room.join_rules", "m.room.member"]
    assert "m.room.member" not in [pdu.type for pdu in select_state(room.state())]
    assert STATE_TYPES[0] == "m.room.create"


@every_version
def test_full_events_are_read_and_stripped(version: str) -> None:
    """A client gets type, state key, sender and content."""
    room = public_room(version)
    read_ = parse_state(events(room), room.room_id, room.version)
    assert read_.problem is None
    assert not read_.create_is_missing
    assert read_.pdus == tuple(select_state(room.state(), ALICE))
    assert read_.stripped == tuple(strip(pdu) for pdu in read_.pdus)
    assert set(read_.stripped[0]) == {"type", "state_key", "sender", "content"}


def test_stripped_events_of_older_servers_are_passed_on() -> None:
    """They are reported as a problem; malformed ones are left out."""
    broken: list[Any] = [
        None,
        {**NAME, "content": None},
        {**NAME, "sender": "alice"},
        {**NAME, "type": "x\0"},
        {**NAME, "state_key": None},
        {**NAME, "type": "x" * 256},
    ]
    read_ = parse_state([NAME, *broken], "!room:a.example", public_room("11").version)
    assert read_.stripped == (NAME,)
    assert read_.problem == "an entry is a stripped event, but servers have to send complete, signed ones"
    assert read_.create_is_missing


@every_version
def test_events_of_another_room_are_not_passed_on(version: str) -> None:
    """The user is not invited to that room."""
    room, other = public_room(version), public_room(version, topic="other")
    entries = [other.state()["m.room.join_rules", ""].event, room.create.event]
    read_ = parse_state(entries, room.room_id if version == "12" else "!third:a.example", room.version)
    assert read_.problem == "an event belongs to another room"
    assert all(entry["type"] == "m.room.create" for entry in read_.stripped)


def test_message_events_are_left_out() -> None:
    room = public_room("11")
    read_ = parse_state([room.say(ALICE).event, room.create.event], room.room_id, room.version)
    assert read_.problem is not None
    assert read_.stripped == (strip(room.create),)


@pytest.mark.parametrize("entries", [None, {}, "room"])
def test_entries_that_are_not_a_list(entries: object) -> None:
    """The result is empty."""
    read_ = parse_state(entries, "!room:a.example", public_room("11").version)
    assert (read_.stripped, read_.pdus) == ((), ())
    assert read_.problem == "there is no list of events"


def test_a_create_event_of_another_version_is_ignored() -> None:
    """The room would have another version than the invite claims."""
    room = Room("10")
    read_ = parse_state([room.create.event], room.room_id, Room("11").version)
    assert read_.problem == "the create event is not one of this room version"


def test_the_number_of_entries_is_limited() -> None:
    read_ = parse_state([NAME] * (MAX_EVENTS + 1), "!room:a.example", Room("11").version)
    assert len(read_.stripped) == MAX_EVENTS
    assert read_.problem == f"there are more than {MAX_EVENTS} events"
