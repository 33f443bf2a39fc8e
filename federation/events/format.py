"""The format of an event: step 1 of the checks on receipt of a PDU, and the size limits of events.

Server-server API, "Checks performed on receipt of a PDU": "1. Is a valid event, otherwise it is dropped.
For an event to be valid, it must contain a `room_id`, and it must comply with the event format of that room
version."

Size limits: client-server API, "Size limits"; server-server API, "PDUs".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from federation.events import hashes
from federation.events.pdu import Pdu, create_event_id, make_pdu, strip_unsigned
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.identifiers import MAX_BYTES, domain, is_event_id, is_room_id, is_server_name, looks_like_user_id
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import decode_base64

MAX_PDU_BYTES: Final = 65_536
"""The specification: "The complete event MUST NOT be larger than 65536 bytes, when formatted with the
federation event format, including any signatures, and encoded as Canonical JSON.\""""

MAX_AUTH_EVENTS: Final = 10
MAX_PREV_EVENTS: Final = 20

MAX_DEPTH: Final = 2**53 - 1
"""The specification: "If the room's depth is already at the limit, the depth must be set to the limit.\""""

MAX_NESTING: Final = 127
"""Maximum nesting of objects and arrays, including the event itself. The specification has no limit; Synapse
cannot parse deeper events, and an event that most servers cannot parse should be dropped by all."""

MAX_OWN_PREV_EVENTS: Final = 10
"""Maximum number of `prev_events` of a local event, as in Synapse: more make state resolution more
expensive."""

MAX_OWN_CONTENT_BYTES: Final = 60_000
"""Maximum size of the content of a local event, so that there is space for signatures of other servers."""

_BOUNDED_FIELDS: Final = ("sender", "room_id", "state_key", "type", "event_id")


def overlong_field(event: Mapping[str, Any]) -> tuple[str, bool] | None:
    """A field that is too long, and whether it is too long in code points as well.

    `sender`, `room_id`, `state_key`, `type` and `event_id` may have 255 bytes. Servers used to count code
    points, so rooms of versions before 11 may contain events with longer fields; they are stored as rejected.
    """
    longest: tuple[str, bool] | None = None
    for name in _BOUNDED_FIELDS:
        if name not in event:
            continue
        value = event[name]
        if type(value) is not str or len(value) <= MAX_BYTES // 4:
            continue
        if len(value) > MAX_BYTES:
            return name, True
        if longest is None and len(value.encode()) > MAX_BYTES:
            longest = name, False
    return longest


@dataclass(frozen=True, slots=True)
class Malformed:
    """Not an event of this room version. It is dropped, because it has no event id under which it could be
    stored."""

    problem: str


@dataclass(frozen=True, slots=True)
class Oversized:
    """An event with a field of more than 255 bytes but at most 255 code points, in a room version in which
    servers used to count code points. It is stored as rejected, so that events that refer to it can be
    handled."""

    pdu: Pdu
    problem: str


ParseResult = Pdu | Malformed | Oversized

_CACHE_SIZE: Final = 4_000
# 32 bytes in base64 without padding; other forms are decoded to check them.
_USUAL_HASH: Final = re.compile(r"[A-Za-z0-9+/]{43}", re.ASCII)


def room_id_of(event: object) -> str | None:
    """The room id of an event that has not been parsed, because the room version is not known yet.

    None for an event without valid room id, such as the create event of a version 12 room. A create event in
    a transaction is ignored anyway: a room becomes known by joining it.
    """
    room_id = event.get("room_id") if isinstance(event, dict) else None
    return room_id if isinstance(room_id, str) and _is_valid_room_id(room_id) else None


def parse(event: object, version: RoomVersion, *, enforce_counts: bool = True) -> ParseResult:
    """Check the format of an event from a peer, strip its `unsigned`, and compute its id.

    `enforce_counts=False` skips the limits of `auth_events` and `prev_events`, for events from backfill that
    were accepted long ago.
    """
    if not isinstance(event, dict):
        return Malformed("an event must be an object")
    event = strip_unsigned(event)
    problem = _find_structure_problem(event) or _find_identifier_problem(event, version)
    if problem is None and enforce_counts:
        problem = _find_count_problem(event)
    if problem is not None:
        return Malformed(problem)
    try:
        canonical = encode(event, strict=version.strict_canonical_json, max_depth=MAX_NESTING)
    except NotCanonical as not_canonical:
        return Malformed(f"it has no canonical form: {not_canonical}")
    if len(canonical) > MAX_PDU_BYTES:
        return Malformed(f"it is larger than {MAX_PDU_BYTES} bytes")
    overlong = overlong_field(event)
    if overlong is not None and (overlong[1] or version.strict_byte_limits):
        return Malformed(f"{overlong[0]} is longer than 255 bytes")
    pdu = make_pdu(event, canonical, hashes.event_id(event, version), version)
    if overlong is not None:
        return Oversized(pdu, f"{overlong[0]} is longer than 255 bytes")
    return pdu


def _are_event_ids(values: list[Any]) -> bool:
    for value in values:  # noqa: SIM110 - a generator would cost more than the checks
        if type(value) is not str or not is_event_id(value):
            return False
    return True


def _are_hashes(made: Mapping[str, Any]) -> bool:
    for value in made.values():
        if type(value) is not str:
            return False
    sha256 = made.get("sha256")
    return sha256 is not None and (_USUAL_HASH.fullmatch(sha256) is not None or decode_base64(sha256) is not None)


def _are_signatures(signatures: Mapping[str, Any]) -> bool:
    for made in signatures.values():
        if type(made) is not dict:
            return False
        for value in made.values():
            if type(value) is not str:
                return False
    return True


# The exact types that JSON decodes to: in Python, but not in JSON, True and False are integers.
_REQUIRED: Final = (
    ("type", str),
    ("sender", str),
    ("content", dict),
    ("origin_server_ts", int),
    ("depth", int),
    ("prev_events", list),
    ("auth_events", list),
    ("hashes", dict),
    ("signatures", dict),
)


def _find_structure_problem(event: Mapping[str, Any]) -> str | None:
    """Check the properties and their types, which the page of every room version lists."""
    for name, kind in _REQUIRED:
        if name not in event:
            return f"{name} is missing"
        if type(event[name]) is not kind:
            return f"{name} has the wrong type"
    for name, is_valid in (
        ("prev_events", _are_event_ids),
        ("auth_events", _are_event_ids),
        ("hashes", _are_hashes),
        ("signatures", _are_signatures),
    ):
        if not is_valid(event[name]):
            return f"{name} is malformed"
    if "state_key" in event and not isinstance(event["state_key"], str):
        return "state_key is not a string"
    # Room version 3: "When events are sent over federation, the `event_id` field is no longer included."
    if "event_id" in event:
        return "an event must not contain its event_id"
    if not 0 <= event["depth"] <= MAX_DEPTH:
        return "depth is out of range"
    return None


def _find_identifier_problem(event: Mapping[str, Any], version: RoomVersion) -> str | None:
    # The sender's server must sign, so the sender must contain a server name. The length is checked with the
    # other lengths.
    sender = event["sender"]
    if not _is_valid_sender(sender):
        return "sender is not a user id"
    # No identifier may contain NUL. An event type or state key is not an identifier, but servers that store
    # events in Postgres, which are nearly all, cannot store it.
    if "\0" in sender or "\0" in event["type"] or "\0" in event.get("state_key", ""):
        return "NUL in sender, type or state_key"
    if version.create_event_is_room_id and event["type"] == "m.room.create" and event.get("state_key") == "":
        # Room version 12: the create event has no room id; the room id is derived from its event id.
        return "the create event of this room version has no room_id" if "room_id" in event else None
    room_id = event.get("room_id")
    if not isinstance(room_id, str) or not _is_valid_room_id(room_id):
        return "room_id is not a room id"
    # Room version 12: "The `m.room.create` event MUST NOT be selected for `auth_events` on events."
    if version.create_event_is_room_id and create_event_id(room_id) in event["auth_events"]:
        return "auth_events name the create event"
    return None


def _is_valid_sender(sender: str) -> bool:
    if len(sender) <= MAX_BYTES:
        return _is_valid_short_sender(sender)
    return looks_like_user_id(sender) and is_server_name(domain(sender) or "")


def _is_valid_room_id(room_id: str) -> bool:
    return len(room_id) <= MAX_BYTES and _is_valid_short_room_id(room_id)


# The same few identifiers are checked again and again; too long ones are not cached.


@lru_cache(maxsize=_CACHE_SIZE)
def _is_valid_short_sender(sender: str) -> bool:
    return looks_like_user_id(sender) and is_server_name(domain(sender) or "")


@lru_cache(maxsize=_CACHE_SIZE)
def _is_valid_short_room_id(room_id: str) -> bool:
    return is_room_id(room_id)


def _find_count_problem(event: Mapping[str, Any]) -> str | None:
    """auth_events: "Must contain less than or equal to 10 events", prev_events: "… 20 events"."""
    if len(event["auth_events"]) > MAX_AUTH_EVENTS:
        return f"it has more than {MAX_AUTH_EVENTS} auth_events"
    if len(event["prev_events"]) > MAX_PREV_EVENTS:
        return f"it has more than {MAX_PREV_EVENTS} prev_events"
    return None
