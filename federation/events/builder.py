"""Builds local events: from a template to a signed PDU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nacl.signing import SigningKey

from federation.events import format as limits
from federation.events.event_signatures import hash_and_sign
from federation.events.format import Malformed, Oversized, parse
from federation.events.pdu import Pdu
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.identifiers import EventId
from federation.matrix.room_version import RoomVersion


@dataclass(frozen=True, slots=True)
class Signer:
    """The server that signs an event, and its key."""

    server: str
    key_id: str
    key: SigningKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class Template:
    """An event before it is hashed and signed."""

    type: str
    sender: str
    content: Mapping[str, Any]
    origin_server_ts: int
    room_id: str | None = None
    """None for the create event of a room version in which the room id is derived from it."""
    state_key: str | None = None
    redacts: EventId | None = None
    """The target of a redaction."""
    prev_events: Sequence[EventId] = ()
    prev_depths: Sequence[int] = ()
    auth_events: Sequence[EventId] = ()


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why the event cannot be built: its content is too large, or has no canonical form."""

    problem: str


def build(template: Template, version: RoomVersion, signer: Signer) -> Pdu | BuildFailure:
    """Build and sign the event."""
    if len(template.prev_events) > limits.MAX_OWN_PREV_EVENTS:
        return BuildFailure(f"a local event has at most {limits.MAX_OWN_PREV_EVENTS} prev_events")
    event = unsigned_event(template)
    try:
        size = len(encode(event["content"], strict=version.strict_canonical_json, max_depth=limits.MAX_NESTING))
    except NotCanonical as not_canonical:
        return BuildFailure(f"the content has no canonical form: {not_canonical}")
    if size > limits.MAX_OWN_CONTENT_BYTES:
        return BuildFailure(f"the content is larger than {limits.MAX_OWN_CONTENT_BYTES} bytes")
    return sign_event(event, version, signer)


def sign_event(event: Mapping[str, Any], version: RoomVersion, signer: Signer) -> Pdu | BuildFailure:
    """Hash and sign an event that is otherwise complete: a local event, or the template that a resident
    server made for a join, leave or knock."""
    unsigned = {key: value for key, value in event.items() if key not in {"hashes", "signatures", "unsigned"}}
    try:
        encode(unsigned, strict=version.strict_canonical_json, max_depth=limits.MAX_NESTING)
        signed = hash_and_sign(unsigned, version, signer.server, signer.key_id, signer.key)
    except NotCanonical as not_canonical:
        return BuildFailure(f"it has no canonical form: {not_canonical}")
    # Events that this server would not accept are not sent.
    match parse(signed, version):
        case Pdu() as pdu:
            return pdu
        case Malformed(problem) | Oversized(_, problem):
            return BuildFailure(problem)


def unsigned_event(template: Template) -> dict[str, Any]:
    """The event without hashes and signatures, as in the response of `make_join`, `make_leave` and
    `make_knock`."""
    event: dict[str, Any] = {
        "type": template.type,
        "sender": template.sender,
        "content": dict(template.content),
        "origin_server_ts": template.origin_server_ts,
        "depth": depth_after(template.prev_depths),
        "prev_events": list(template.prev_events),
        "auth_events": list(template.auth_events),
    }
    if template.room_id is not None:
        event["room_id"] = template.room_id
    if template.state_key is not None:
        event["state_key"] = template.state_key
    if template.redacts is not None:
        # Room versions differ in the place. Some homeservers read only one of them.
        event["redacts"] = event["content"]["redacts"] = template.redacts
    return event


def depth_after(prev_depths: Sequence[int]) -> int:
    # "The maximum depth of the `prev_events`, plus one. […] If the room's depth is already at the limit, the
    # depth must be set to the limit."
    return min(max(prev_depths, default=0) + 1, limits.MAX_DEPTH)
