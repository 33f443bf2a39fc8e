"""What one process of a node has heard in a room, and passes on to the process that it is for."""

from collections.abc import Mapping
from typing import Any

from federation.room_event import RoomEvent

_TEXTS = ("event_id", "room_id", "sender", "type")


def passed_on(event: RoomEvent) -> dict[str, Any]:
    return {
        **{name: getattr(event, name) for name in _TEXTS},
        "content": event.content,
        "origin_server_ts": event.origin_server_ts,
    }


def read_passed(said: Mapping[str, Any]) -> RoomEvent | None:
    """None for what has not this form."""
    texts = [said.get(name) for name in _TEXTS]
    content, at_ms = said.get("content"), said.get("origin_server_ts")
    if (
        not all(isinstance(one, str) for one in texts)
        or not isinstance(content, dict)
        or type(at_ms) is not int
    ):
        return None
    event_id, room_id, sender, type_ = map(str, texts)
    return RoomEvent(event_id, room_id, sender, type_, content, at_ms)
