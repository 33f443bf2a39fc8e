"""An event before it is made."""

from federation.events.room_event import NewEvent


def test_it_bears_the_time_at_which_it_is_made_unless_it_says_another() -> None:
    """Nobody has to say what the clock says anyway."""
    assert NewEvent("m.room.message", "@a:b", {}).ts is None
    assert NewEvent("m.room.message", "@a:b", {}, ts=5).ts == 5
