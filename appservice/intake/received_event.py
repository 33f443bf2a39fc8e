"""An event as the homeserver sends it to us, and as it is kept until everybody has read it.

It comes in the form that clients get. The homeserver has judged it, and nothing of it can be checked again.
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
"""Of an event, with all that servers add to it for each other; so what is kept of it is less. As much again
may be shown of a room."""

REDACTION: Final = "m.room.redaction"
MEMBER: Final = "m.room.member"
TRANSACTION_KEY: Final = "io.palaver.transaction"
"""In the contents of messages that we send: by it they are known when they come back."""
_KEY: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """`invite_state` is what is shown of a room to whom it invites."""

    event: RoomEvent
    invite_state: tuple[StrippedEvent, ...] = ()


def read(value: object) -> ReceivedEvent | str:
    """The event, or why it is none: a sentence for the operator, with nothing in it of what was sent."""
    if not isinstance(value, Mapping):
        return "an event is no object"
    ids = tuple(value.get(name) for name in ("event_id", "room_id", "sender"))
    event_id, room_id, sender = ids
    if not is_event_id_text(event_id) or not isinstance(event_id, str):
        return "an event has no id"
    if not isinstance(room_id, str) or not is_room_id(room_id):
        return "an event is in no room"
    if not isinstance(sender, str) or not is_user_id(sender):
        return "an event has no sender"
    type_, content, state_key = (value.get(name) for name in ("type", "content", "state_key"))
    if not isinstance(type_, str) or not has_valid_length(type_):
        return "an event has no type"
    if not isinstance(content, dict):
        return "the content of an event is no object"
    if state_key is not None and not (isinstance(state_key, str) and has_valid_length(state_key)):
        return "a state key is no text that could be one"
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
        return "an event cannot be written down"
    return received if size <= MAX_BYTES else f"an event has more than {MAX_BYTES} bytes"


def is_invite(event: RoomEvent) -> bool:
    return event.type == MEMBER and event.content.get("membership") == "invite"


def sent_mark(event: RoomEvent) -> str | None:
    """By what an event is known as the one that its sender sent under a key."""
    key = event.content.get(TRANSACTION_KEY)
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        return None
    return mark(key, event.sender)


def mark(key: str, sender: str) -> str:
    """Everybody in a room reads the keys there: with the sender it is the sender's own."""
    return f"{key} {sender}"


def to_bytes(received: ReceivedEvent) -> bytes:
    kept = to_json(received.event)
    if received.invite_state:
        kept["invite_state"] = list(received.invite_state)
    return encode(kept, strict=False)


def from_bytes(kept: bytes, *, is_redacted: bool = False) -> ReceivedEvent:
    """`is_redacted`: a redaction has come that asks for it, after it or before."""
    value = decode(kept)
    event = from_json(value)
    if is_redacted:
        # The versions differ only in what stays of the state of rooms, and that the homeserver is asked for.
        shown = redact({"type": event.type, "content": event.content}, DEFAULT_ROOM_VERSION)
        event = replace(event, content=shown["content"], is_redacted=True)
    return ReceivedEvent(event, tuple(value.get("invite_state", ())))


def _time(value: object) -> int:
    """In rooms before version 6 it may be any number; what is no time is the beginning of it."""
    return max(0, min(value, MAX_INTEGER)) if type(value) is int else 0


def _redacts(value: Mapping[str, Any], type_: str, content: Mapping[str, Any]) -> str | None:
    """From room version 11 on it stands in the content, before beside it, and homeservers copy it to the
    other place. Where the two differ, one of them has been judged by nobody."""
    if type_ != REDACTION:
        return None
    named = [one["redacts"] for one in (content, value) if "redacts" in one]
    if not named or not is_event_id_text(named[0]) or any(one != named[0] for one in named):
        return None
    return str(named[0])


def _invite_state(entries: object, room_id: str) -> tuple[StrippedEvent, ...]:
    if not isinstance(entries, list):
        return ()
    stripped = read_stripped(entries, room_id, DEFAULT_ROOM_VERSION).stripped
    try:
        size = len(encode(list(stripped), strict=False))
    except NotCanonical:
        return ()
    return stripped if size <= MAX_BYTES else ()
