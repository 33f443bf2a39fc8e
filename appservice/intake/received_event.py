"""An event as the homeserver pushes it, and as it is stored until every reader has read it.

Events arrive in the client format. The homeserver has authorised them, and this node cannot verify
that again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from federation.events.redaction import redact
from federation.events.room_event import RoomEvent, from_json, to_json
from federation.events.stripped_state import StrippedEvent
from federation.events.stripped_state import parse_state as read_stripped
from federation.matrix.canonical_json import NotCanonical, decode, encode
from federation.matrix.identifiers import has_valid_length, is_room_id, is_user_id
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from federation.transactions.edus import MAX_INTEGER, is_event_id_text

MAX_BYTES: Final = 65_536
"""Of an event in the federation format; the stored part is smaller. The stripped state of an invite may have
as much again."""

REDACTION: Final = "m.room.redaction"
MEMBER: Final = "m.room.member"
TRANSACTION_KEY: Final = "io.palaver.transaction"
"""Stands in the content of messages that this node sends, and identifies them when the homeserver pushes them
back."""
_KEY: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """`invite_state` is the stripped state of the room that an invite contains."""

    event: RoomEvent
    invite_state: tuple[StrippedEvent, ...] = ()


def read(value: object) -> ReceivedEvent | str:
    """Return the event, or why it is invalid: a sentence for the operator that quotes nothing of the
    event."""
    if not isinstance(value, Mapping):
        return "an event is not an object"
    ids = tuple(value.get(name) for name in ("event_id", "room_id", "sender"))
    event_id, room_id, sender = ids
    if not is_event_id_text(event_id) or not isinstance(event_id, str):
        return "an event has no id"
    if not isinstance(room_id, str) or not is_room_id(room_id):
        return "an event has no room id"
    if not isinstance(sender, str) or not is_user_id(sender):
        return "an event has no sender"
    type_, content, state_key = (value.get(name) for name in ("type", "content", "state_key"))
    if not isinstance(type_, str) or not has_valid_length(type_):
        return "an event has no type"
    if not isinstance(content, dict):
        return "the content of an event is not an object"
    if state_key is not None and not (isinstance(state_key, str) and has_valid_length(state_key)):
        return "a state key is not a valid string"
    unsigned = value.get("unsigned")
    unsigned = unsigned if isinstance(unsigned, Mapping) else {}
    event = RoomEvent(
        event_id,
        room_id,
        sender,
        type_,
        content,
        _time(value.get("origin_server_ts")),
        state_key,
        _redacts(value, type_, content),
        "redacted_because" in unsigned,
    )
    received = ReceivedEvent(event, _invite_state(unsigned.get("invite_room_state"), room_id))
    try:
        size = len(encode(to_json(event), strict=False))
    except NotCanonical:
        return "an event cannot be encoded"
    return received if size <= MAX_BYTES else f"an event has more than {MAX_BYTES} bytes"


def is_invite(event: RoomEvent) -> bool:
    return event.type == MEMBER and event.content.get("membership") == "invite"


def sent_mark(event: RoomEvent) -> str | None:
    """The mark that identifies an event by its sender and transaction key."""
    key = event.content.get(TRANSACTION_KEY)
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        return None
    return mark(key, event.sender)


def mark(key: str, sender: str) -> str:
    """Every member of a room can read and copy a key; together with the sender it is unique to the sender."""
    return f"{key} {sender}"


def to_bytes(received: ReceivedEvent) -> bytes:
    stored = to_json(received.event)
    if received.invite_state:
        stored["invite_state"] = list(received.invite_state)
    return encode(stored, strict=False)


def from_bytes(stored: bytes, *, is_redacted: bool = False) -> ReceivedEvent:
    """`is_redacted`: a redaction of this event has been received, before or after it."""
    value = decode(stored)
    event = from_json(value)
    if is_redacted:
        # Room versions differ only in which state content survives, and that is fetched from the homeserver.
        shown = redact({"type": event.type, "content": event.content}, DEFAULT_ROOM_VERSION)
        event = replace(event, content=shown["content"], is_redacted=True)
    return ReceivedEvent(event, tuple(value.get("invite_state", ())))


def _time(value: object) -> int:
    """Rooms before version 6 allow any number; an invalid time becomes 0."""
    return max(0, min(value, MAX_INTEGER)) if type(value) is int else 0


def _redacts(value: Mapping[str, Any], type_: str, content: Mapping[str, Any]) -> str | None:
    """From room version 11 on `redacts` is in the content, before that at the top level; homeservers copy it
    to the other place. If the two differ, the homeserver authorised only one of them, so both are ignored."""
    if type_ != REDACTION:
        return None
    event_ids = [one["redacts"] for one in (content, value) if "redacts" in one]
    if not event_ids or not is_event_id_text(event_ids[0]) or any(one != event_ids[0] for one in event_ids):
        return None
    return str(event_ids[0])


def _invite_state(entries: object, room_id: str) -> tuple[StrippedEvent, ...]:
    if not isinstance(entries, list):
        return ()
    stripped = read_stripped(entries, room_id, DEFAULT_ROOM_VERSION).stripped
    try:
        size = len(encode(list(stripped), strict=False))
    except NotCanonical:
        return ()
    return stripped if size <= MAX_BYTES else ()
