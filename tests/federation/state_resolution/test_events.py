"""The events that state resolution reads."""

import pytest

from federation.matrix.room_version import ROOM_VERSIONS
from federation.state_resolution.events import EventSource
from tests.support.rooms import ALICE, BOB, public_room


def test_missing_events_are_recorded() -> None:
    """Once each, without absent events."""
    room = public_room("12")
    events = EventSource(room.events, None, {"$gone"}, room.version)
    assert events.get(room.create.event_id) is room.create
    assert events.get("$x") is None
    assert events.get("$x") is None
    assert events.get("$gone") is None
    assert events.auth_events_of("$y") == ()
    assert events.missing == {"$x", "$y"}


def test_edges_replace_loaded_events() -> None:
    """Events without edges are read."""
    room = public_room("11")
    levels = room.state()["m.room.power_levels", ""]
    events = EventSource(room.events, {"$far": ["$further"]}, (), room.version)
    assert events.auth_events_of("$far") == ["$further"]
    assert events.auth_events_of(levels.event_id) == levels.auth_events
    assert events.missing == set()


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_create_event_and_power_levels_of_an_event(version: str) -> None:
    """The power levels are among its auth events; so is the create event, until the room id identifies it."""
    room = public_room(version, BOB)
    events = EventSource(room.events, None, (), room.version)
    bob = room.state()["m.room.member", BOB]
    assert events.create_of(bob) is room.create
    assert events.power_levels_of(bob) is room.state()["m.room.power_levels", ""]
    first_join = next(pdu for pdu in room.events.values() if pdu.key == ("m.room.member", ALICE))
    assert events.power_levels_of(first_join) is None
    if not room.version.create_event_is_room_id:
        assert events.create_of(room.create) is None
