"""What somebody outside is shown of a room: to whom is invited or knocks.

Client-server API, "Stripped state"; since v1.16 servers give each other full events for it (MSC4311), which
can be checked, and clients are given what is left of them without their signatures.
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
"""What the specification recommends "to help identify the room", besides the member event of who invites."""

MAX_EVENTS: Final = 50
"""How many events are read of what a server shows."""

StrippedEvent = Mapping[str, Any]
"""`type`, `state_key`, `sender`, `content`: what a client gets."""


@dataclass(frozen=True, slots=True)
class ReceivedState:
    """`stripped` is what may be passed on to clients. `pdus` are the entries that are events of the room,
    whose signatures can be checked. `problem`: why it is not what since v1.16 it should be."""

    stripped: tuple[StrippedEvent, ...] = field(repr=False)
    pdus: tuple[Pdu, ...] = field(repr=False)
    problem: str | None
    create_is_missing: bool


def select_state(state: Mapping[StateKey, Pdu], inviting: str | None = None) -> list[Pdu]:
    """The events of a room that somebody outside is shown, the create event first."""
    return [state[key] for key in selected_keys(inviting) if key in state]


def selected_keys(inviting: str | None = None) -> list[StateKey]:
    """Their places in the state."""
    keys: list[StateKey] = [(type_, "") for type_ in STATE_TYPES]
    return keys if inviting is None else [*keys, ("m.room.member", inviting)]


def strip(pdu: Pdu) -> StrippedEvent:
    return {
        "type": pdu.type,
        "state_key": pdu.state_key,
        "sender": pdu.sender,
        "content": dict(pdu.content),
    }


def parse_state(entries: object, room_id: str, version: RoomVersion) -> ReceivedState:
    """Look at what another server shows: full events, or until version 11 stripped ones."""
    listed = entries if isinstance(entries, list) else []
    stripped: list[StrippedEvent] = []
    pdus: list[Pdu] = []
    problem = None if isinstance(entries, list) else "there is no list of events"
    if len(listed) > MAX_EVENTS:
        problem = f"there are more than {MAX_EVENTS} events"
    for entry in listed[:MAX_EVENTS]:
        read_ = _read_entry(entry, room_id, version)
        if isinstance(read_, Pdu):
            pdus.append(read_)
            stripped.append(strip(read_))
        else:
            problem = problem or read_
            stripped += _already_stripped(entry)
    create_is_missing = not any(_is_create(pdu, version) for pdu in pdus)
    if create_is_missing:
        problem = problem or "the create event is missing"
    return ReceivedState(tuple(stripped), tuple(pdus), problem, create_is_missing)


def _read_entry(entry: object, room_id: str, version: RoomVersion) -> Pdu | str:
    # "One or more entries in invite_room_state are not formatted according to the room's version."
    pdu = parse(entry, version)
    if not isinstance(pdu, Pdu) or pdu.state_key is None:
        return "an entry is not a state event of the room's version"
    # "One or more events does not reside in the same room as the invite."
    if pdu.room_id != room_id:
        return "an event is of another room"
    return pdu


def _is_create(pdu: Pdu, version: RoomVersion) -> bool:
    return pdu.key == CREATE and version_of_create_event(pdu.content) == version.id


def _already_stripped(entry: object) -> Iterator[StrippedEvent]:
    """What servers sent before v1.16, in a form that clients can be given."""
    if not isinstance(entry, dict) or "hashes" in entry:
        return  # a full event that is none of this room's
    type_, state_key, sender, content = (
        entry.get(name) for name in ("type", "state_key", "sender", "content")
    )
    texts = (type_, state_key, sender)
    if not all(isinstance(text, str) and has_valid_length(text) and "\0" not in text for text in texts):
        return
    if isinstance(content, dict) and isinstance(sender, str) and looks_like_user_id(sender):
        yield {"type": type_, "state_key": state_key, "sender": sender, "content": content}
