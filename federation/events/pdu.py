"""The PDU: an event in the form in which servers exchange it, immutable and with its event id."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from federation.events import hashes
from federation.events.redaction import redact
from federation.matrix.identifiers import EventId, is_event_id
from federation.matrix.room_version import RoomVersion

StateKey = tuple[str, str]
"""(type, state_key): the key of a state event in the room state."""
CREATE: Final[StateKey] = ("m.room.create", "")


@dataclass(frozen=True, slots=True, eq=False)
class Pdu:
    """An event. Two PDUs are equal if they have the same event id, which covers everything that was
    signed."""

    event_id: EventId
    room_id: str
    type: str
    state_key: str | None
    sender: str
    content: Mapping[str, Any] = field(repr=False)
    origin_server_ts: int = field(repr=False)
    depth: int = field(repr=False)
    prev_events: tuple[EventId, ...] = field(repr=False)
    auth_events: tuple[EventId, ...] = field(repr=False)
    event: Mapping[str, Any] = field(repr=False)
    """The JSON object that is sent to peers. It must not be modified."""

    canonical: bytes = field(repr=False)
    """`event` as canonical JSON."""

    @property
    def key(self) -> StateKey | None:
        """The key in the room state. None for a message event."""
        return None if self.state_key is None else (self.type, self.state_key)

    @property
    def membership(self) -> object:
        """`content.membership`, which may be of any type."""
        return self.content.get("membership")

    @property
    def unsigned(self) -> Mapping[str, Any]:
        unsigned: Mapping[str, Any] = self.event.get("unsigned", {})
        return unsigned

    @property
    def signatures(self) -> Mapping[str, Mapping[str, str]]:
        signatures: Mapping[str, Mapping[str, str]] = self.event.get("signatures", {})
        return signatures

    def redacts(self, version: RoomVersion) -> EventId | None:
        """The target, if this is a redaction with a valid event id as target."""
        if self.type != "m.room.redaction":
            return None
        target = (self.content if version.redacts_in_content else self.event).get("redacts")
        return target if isinstance(target, str) and is_event_id(target) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pdu) and other.event_id == self.event_id

    def __hash__(self) -> int:
        return hash(self.event_id)


def make_pdu(event: Mapping[str, Any], canonical: bytes, event_id: EventId, version: RoomVersion) -> Pdu:
    """Make the PDU of an event whose format has been checked: one from the database, or from `parse`."""
    if version.create_event_is_room_id and event["type"] == "m.room.create" and "room_id" not in event:
        # Version 12: "The room ID is the event ID of the event with sigil `!` instead of `$`."
        room_id = "!" + event_id[1:]
    else:
        room_id = event["room_id"]
    return Pdu(
        event_id=event_id,
        room_id=room_id,
        type=event["type"],
        state_key=event.get("state_key"),
        sender=event["sender"],
        content=event["content"],
        origin_server_ts=event["origin_server_ts"],
        depth=event["depth"],
        prev_events=tuple(event["prev_events"]),
        auth_events=tuple(event["auth_events"]),
        event=event,
        canonical=canonical,
    )


def redact_pdu(pdu: Pdu, version: RoomVersion) -> Pdu:
    """The redacted event. Its event id and its signatures stay the same."""
    event = redact(pdu.event, version)
    return make_pdu(event, hashes.canonical(event, version), pdu.event_id, version)


def create_event_id(room_id: str) -> EventId:
    """Room version 12: the id of the create event of the room with this id."""
    return "$" + room_id[1:]


_ALWAYS: Final = frozenset({"age"})
_OF_MEMBERS: Final = _ALWAYS | {"invite_room_state", "knock_room_state"}


def strip_unsigned(event: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an event from a peer in which `unsigned`, which is not signed, has only `age`, and in
    membership events the stripped state of an invite or a knock. An empty `unsigned` is removed."""
    stripped = dict(event)
    unsigned = stripped.pop("unsigned", None)
    if isinstance(unsigned, dict):
        allowed = _OF_MEMBERS if event.get("type") == "m.room.member" else _ALWAYS
        kept = {key: value for key, value in unsigned.items() if key in allowed}
        if kept:
            stripped["unsigned"] = kept
    return stripped
