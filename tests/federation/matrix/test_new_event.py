"""Local events before they are built."""

from federation.events.room_event import NewEvent


def test_the_default_time_is_the_time_of_sending() -> None:
    assert NewEvent("m.room.message", "@a:b", {}).ts is None
    assert NewEvent("m.room.message", "@a:b", {}, ts=5).ts == 5
