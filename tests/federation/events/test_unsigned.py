"""What may stay in `unsigned` when a peer has filled it."""

from typing import Any

import pytest

from federation.events.pdu import strip_unsigned

FULL = {"age": 3, "invite_room_state": [], "knock_room_state": [], "redacted_because": {}, "m.relations": {}}


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        ({"type": "m.room.message", "unsigned": FULL}, {"age": 3}),
        (
            {"type": "m.room.member", "unsigned": FULL},
            {"age": 3, "invite_room_state": [], "knock_room_state": []},
        ),
        ({"type": "m.room.message", "unsigned": {"redacted_because": {}}}, None),
        ({"type": "m.room.message", "unsigned": "rubbish"}, None),
        ({"type": "m.room.message", "unsigned": None}, None),
        ({"type": "m.room.message"}, None),
        ({"type": ["rubbish"], "unsigned": FULL}, {"age": 3}),
    ],
)
def test_what_is_kept(event: dict[str, Any], kept: dict[str, Any] | None) -> None:
    """`age`, and on membership events the state for who is invited or knocks; nothing else is anybody's
    word."""
    before = dict(event)
    assert strip_unsigned(event).get("unsigned") == kept
    assert event == before
