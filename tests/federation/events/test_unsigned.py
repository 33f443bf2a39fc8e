"""The parts of `unsigned` that are accepted from peers."""

from typing import Any

import pytest

from federation.events.pdu import strip_unsigned

FULL = {"age": 3, "invite_room_state": [], "knock_room_state": [], "redacted_because": {}, "m.relations": {}}


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        ({"type": "m.room.message", "unsigned": FULL}, {"age": 3}),
        ({"type": "m.room.member", "unsigned": FULL}, {"age": 3, "invite_room_state": [], "knock_room_state": []}),
        ({"type": "m.room.message", "unsigned": {"redacted_because": {}}}, None),
        ({"type": "m.room.message", "unsigned": "rubbish"}, None),
        ({"type": "m.room.message", "unsigned": None}, None),
        ({"type": "m.room.message"}, None),
        ({"type": ["rubbish"], "unsigned": FULL}, {"age": 3}),
    ],
)
def test_kept_properties(event: dict[str, Any], kept: dict[str, Any] | None) -> None:
    """`age`, and in membership events the stripped state; other properties are not signed."""
    before = dict(event)
    assert strip_unsigned(event).get("unsigned") == kept
    assert event == before
