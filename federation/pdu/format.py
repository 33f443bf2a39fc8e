"""The form of an event: step 1 of receiving one. What has not this form is no event of the room's version.

Server-server API, "Checks performed on receipt of a PDU": "1. Is a valid event, otherwise it is dropped.
For an event to be valid, it must contain a `room_id`, and it must comply with the event format of that room
version."
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.canonical_json import NotCanonical, encode
from federation.identifiers import domain, is_event_id, is_room_id, is_server_name, looks_like_user_id
from federation.pdu import hashes, limits
from federation.pdu.pdu import Pdu, create_event_id, view
from federation.pdu.unsigned import strip_unsigned
from federation.room_version import RoomVersion
from federation.signatures import decode_base64


@dataclass(frozen=True, slots=True)
class Malformed:
    """Not an event of this room version. It is dropped: it has no id by which to remember it."""

    problem: str


@dataclass(frozen=True, slots=True)
class Oversized:
    """An event with a field that is longer than 255 bytes but not than 255 code points, in a room version
    in which servers used to count code points. It is stored as rejected, so that what refers to it is not
    lost."""

    pdu: Pdu
    problem: str


Parsed = Pdu | Malformed | Oversized


def room_id_of(event: object) -> str | None:
    """The room that an event says it is in, before anybody can tell its version and parse it.

    None when it does not say, as the create event of a version 12 room: one that arrives in a transaction
    is ignored, since a room becomes known by joining it and not by hearing of its creation.
    """
    room_id = event.get("room_id") if isinstance(event, dict) else None
    return room_id if isinstance(room_id, str) and is_room_id(room_id) else None


def parse(event: object, version: RoomVersion, *, enforce_counts: bool = True) -> Parsed:
    """Check the form of an event from a peer, strip its `unsigned`, and compute its id.

    `enforce_counts=False` leaves out how many events it refers to: what backfill returns was accepted long
    ago.
    """
    if not isinstance(event, dict):
        return Malformed("an event is an object")
    event = strip_unsigned(event)
    problem = _missing_or_wrong(event) or _wrong_identifier(event, version)
    if problem is None and enforce_counts:
        problem = _too_many_references(event)
    if problem is not None:
        return Malformed(problem)
    try:
        canonical = encode(event, strict=version.strict_canonical_json, max_depth=limits.MAX_NESTING)
    except NotCanonical as not_canonical:
        return Malformed(f"it has no canonical form: {not_canonical}")
    if len(canonical) > limits.MAX_PDU_BYTES:
        return Malformed(f"it is larger than {limits.MAX_PDU_BYTES} bytes")
    overlong = limits.overlong_field(event)
    if overlong is not None and (overlong[1] or version.strict_byte_limits):
        return Malformed(f"{overlong[0]} is longer than 255 bytes")
    pdu = view(event, canonical, hashes.event_id(event, version), version)
    return Oversized(pdu, f"{overlong[0]} is longer than 255 bytes") if overlong is not None else pdu


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_integer(value: object) -> bool:
    return type(value) is int  # True and False are integers to Python and not to JSON


def _is_list_of_event_ids(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and is_event_id(item) for item in value)


def _has_sha256(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(item, str) for item in value.values())
        and decode_base64(value.get("sha256")) is not None
    )


def _are_signatures(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(made, dict) and all(isinstance(item, str) for item in made.values())
        for made in value.values()
    )


_REQUIRED: Final[Mapping[str, Callable[[object], bool]]] = {
    "type": _is_string,
    "sender": _is_string,
    "content": _is_object,
    "origin_server_ts": _is_integer,
    "depth": _is_integer,
    "prev_events": _is_list_of_event_ids,
    "auth_events": _is_list_of_event_ids,
    "hashes": _has_sha256,
    "signatures": _are_signatures,
}


def _missing_or_wrong(event: Mapping[str, Any]) -> str | None:
    """The structure that the page of every room version prints: which properties, of which types."""
    for name, has_its_type in _REQUIRED.items():
        if name not in event:
            return f"{name} is missing"
        if not has_its_type(event[name]):
            return f"{name} is not what it should be"
    if "state_key" in event and not isinstance(event["state_key"], str):
        return "state_key is not a string"
    # Room version 3: "When events are sent over federation, the `event_id` field is no longer included."
    if "event_id" in event:
        return "an event does not carry its own id"
    if not 0 <= event["depth"] <= limits.MAX_DEPTH:
        return "depth is out of range"
    return None


def _wrong_identifier(event: Mapping[str, Any], version: RoomVersion) -> str | None:
    # The sender's server has to sign, so the sender must name one. The length is checked with the other
    # lengths.
    sender = event["sender"]
    if not looks_like_user_id(sender) or not is_server_name(domain(sender) or ""):
        return "sender is not a user id"
    # No identifier may hold NUL. An event type or state key is not an identifier, but a server that keeps its
    # events in Postgres cannot keep this one, and that is nearly all of them.
    if any("\0" in text for text in (sender, event["type"], event.get("state_key", ""))):
        return "NUL in sender, type or state_key"
    if version.create_event_is_room_id and event["type"] == "m.room.create" and event.get("state_key") == "":
        # Room version 12: the create event has no room id. Its own id is the room's.
        return "the create event of this room version has no room_id" if "room_id" in event else None
    room_id = event.get("room_id")
    if not isinstance(room_id, str) or not is_room_id(room_id):
        return "room_id is not a room id"
    # Room version 12: "The `m.room.create` event MUST NOT be selected for `auth_events` on events."
    if version.create_event_is_room_id and create_event_id(room_id) in event["auth_events"]:
        return "auth_events name the create event"
    return None


def _too_many_references(event: Mapping[str, Any]) -> str | None:
    """auth_events: "Must contain less than or equal to 10 events", prev_events: "… 20 events"."""
    if len(event["auth_events"]) > limits.MAX_AUTH_EVENTS:
        return f"it has more than {limits.MAX_AUTH_EVENTS} auth_events"
    if len(event["prev_events"]) > limits.MAX_PREV_EVENTS:
        return f"it has more than {limits.MAX_PREV_EVENTS} prev_events"
    return None
