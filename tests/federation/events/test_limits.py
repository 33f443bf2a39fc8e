"""Size limits of events."""

from typing import Any

import pytest

from federation.events.format import overlong_field


@pytest.mark.parametrize("name", ["sender", "room_id", "state_key", "type", "event_id"])
def test_255_bytes(name: str) -> None:
    """For `sender`, `room_id`, `state_key`, `type` and `event_id`; more than 255 code points were always
    refused."""
    assert overlong_field({name: "x" * 255}) is None
    assert overlong_field({name: "é" * 127}) is None
    assert overlong_field({name: "é" * 128}) == (name, False)
    assert overlong_field({name: "é" * 255}) == (name, False)
    assert overlong_field({name: "x" * 256}) == (name, True)


def test_the_worst_field_decides() -> None:
    """More than 255 code points take precedence over more than 255 bytes."""
    assert overlong_field({"sender": "é" * 200, "type": "x" * 256}) == ("type", True)
    assert overlong_field({"sender": "é" * 200, "type": "é" * 200}) == ("sender", False)


@pytest.mark.parametrize("value", [None, 3, [], {}, ["x" * 300]])
def test_other_fields_and_types_are_not_limited(value: Any) -> None:
    assert overlong_field({"type": value, "content": "x" * 300}) is None
