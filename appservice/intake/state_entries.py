"""Converts between state events and database rows."""

from collections.abc import Callable
from typing import Final

import orjson

from appservice.intake.received_event import MEMBER, ReceivedEvent
from federation.events.room_event import RoomEvent, member_of
from federation.matrix.canonical_json import encode
from storage.appservice.rooms import CachedEntry, StateEntry

MEMBERSHIPS: Final = frozenset({"join", "invite", "knock", "leave", "ban"})


def to_entry(received: ReceivedEvent, is_ours: Callable[[str], bool]) -> StateEntry:
    """`received` is a state event. `is_ours` decides whether a user is a ghost."""
    event = received.event
    assert event.state_key is not None, "checked by the caller"
    is_member = event.type == MEMBER
    membership = member_of(event).membership if is_member else None
    return StateEntry(
        event.room_id,
        to_key(event.type),
        to_key(event.state_key),
        event.event_id,
        event.sender,
        event.origin_server_ts,
        encode(event.content, strict=False),
        event.is_redacted,
        # Any other value may be too long for an index or contain NUL.
        membership if membership is None or membership in MEMBERSHIPS else "leave",
        is_member and is_ours(event.state_key),
        encode(list(received.invite_state), strict=False) if received.invite_state else None,
    )


def to_event(room_id: str, entry: CachedEntry) -> RoomEvent:
    return RoomEvent(
        entry.event_id,
        room_id,
        entry.sender,
        entry.type.decode(),
        orjson.loads(entry.content),
        entry.ts,
        entry.state_key.decode(),
        is_redacted=entry.is_redacted,
    )


def to_key(text: str) -> bytes:
    """The column value. Text that cannot be encoded names nothing and is not found."""
    return text.encode(errors="replace")
