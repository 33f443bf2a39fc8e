"""Stripped state: the state of a room that invited and knocking users see.

Client-server API, "Stripped state". Since v1.16 servers send each other full events (MSC4311), whose
signatures can be checked; clients get the stripped form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation.events import CREATE, Pdu, StateKey, parse
from federation.matrix.identifiers import has_valid_length, looks_like_user_id
from federation.matrix.room_version import RoomVersion, version_of_create_event

STATE_TYPES: Final = (
    "m.room.create",
    "m.room.name",
    "m.room.avatar",
    "m.room.topic",
    "m.room.join_rules",
    "m.room.canonical_alias",
    "m.room.encryption",
)
"""The types that the specification recommends "to help identify the room", besides the sender's member
event."""

MAX_EVENTS: Final = 50
"""Maximum number of events that are read from another server."""

StrippedEvent = Mapping[str, Any]
"""An event with only `type`, `state_key`, `sender` and `content`, as clients get it."""


@dataclass(frozen=True, slots=True)
class ReceivedState:
    """The stripped state in an invite or a knock response. `stripped` may be sent to clients. `pdus` are the
    entries that are full events of the room, whose signatures can be checked. `problem`: why it does not have
    the form that v1.16 requires. `create_is_missing`: no entry claims to be the create event."""

    stripped: tuple[StrippedEvent, ...] = field(repr=False)
    pdus: tuple[Pdu, ...] = field(repr=False)
    problem: str | None
    create_is_missing: bool


def select_state(state: Mapping[StateKey, Pdu], inviting: str | None = None) -> list[Pdu]:
    """The events for the stripped state of a room, the create event first."""
    return [state[key] for key in selected_keys(inviting) if key in state]


def selected_keys(inviting: str | None = None) -> list[StateKey]:
    """The state keys of these events. `inviting` is the sender of an invite."""
    keys: list[StateKey] = [(type_, "") for type_ in STATE_TYPES]
    return keys if inviting is None else [*keys, ("m.room.member", inviting)]


def strip(pdu: Pdu) -> StrippedEvent:
    return {"type": pdu.type, "state_key": pdu.state_key, "sender": pdu.sender, "content": dict(pdu.content)}


def parse_state(entries: object, room_id: str, version: RoomVersion) -> ReceivedState:
    """Parse the entries from another server: full events, or in rooms of versions up to 11 stripped ones."""
    listed = entries if isinstance(entries, list) else []
    stripped: list[StrippedEvent] = []
    pdus: list[Pdu] = []
    problem = None if isinstance(entries, list) else "there is no list of events"
    if len(listed) > MAX_EVENTS:
        problem = f"there are more than {MAX_EVENTS} events"
    for entry in listed[:MAX_EVENTS]:
        parsed = _parse_entry(entry, room_id, version)
        if isinstance(parsed, Pdu):
            pdus.append(parsed)
            stripped.append(strip(parsed))
        else:
            problem = problem or parsed
            stripped += _parse_stripped(entry)
    create_is_missing = not any(isinstance(entry, dict) and entry.get("type") == CREATE[0] for entry in listed)
    if create_is_missing:
        problem = problem or "the create event is missing"
    elif not any(_is_create(pdu, version) for pdu in pdus):
        problem = problem or "the create event is not one of this room version"
    return ReceivedState(tuple(stripped), tuple(pdus), problem, create_is_missing)


def _parse_entry(entry: object, room_id: str, version: RoomVersion) -> Pdu | str:
    # "One or more entries in invite_room_state are not formatted according to the room's version."
    if isinstance(entry, dict) and not entry.keys() & {"hashes", "signatures"}:
        return "an entry is a stripped event, but servers have to send complete, signed ones"
    pdu = parse(entry, version)
    if not isinstance(pdu, Pdu) or pdu.state_key is None:
        return "an entry is not a state event of the room version"
    # "One or more events does not reside in the same room as the invite."
    if pdu.room_id != room_id:
        return "an event belongs to another room"
    return pdu


def _is_create(pdu: Pdu, version: RoomVersion) -> bool:
    return pdu.key == CREATE and version_of_create_event(pdu.content) == version.id


def _parse_stripped(entry: object) -> Iterator[StrippedEvent]:
    """A stripped event, as servers sent it before v1.16, if it is well-formed enough for clients."""
    if not isinstance(entry, dict) or "hashes" in entry:
        return  # a full event, but not one of this room
    type_, state_key, sender, content = (entry.get(name) for name in ("type", "state_key", "sender", "content"))
    texts = (type_, state_key, sender)
    if not all(isinstance(text, str) and has_valid_length(text) and "\0" not in text for text in texts):
        return
    if isinstance(content, dict) and isinstance(sender, str) and looks_like_user_id(sender):
        yield {"type": type_, "state_key": state_key, "sender": sender, "content": content}
