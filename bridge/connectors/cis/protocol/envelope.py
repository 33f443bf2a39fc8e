"""The single event that published nodes exchange over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from bridge.agents.address import AT, is_unicode
from bridge.connectors.cis.protocol.json_values import MAX_DEPTH, problem_of
from bridge.connectors.cis.protocol.refusals import InvalidPayload, TooLarge
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.identifiers import domain, has_valid_length, is_event_id

MAX_BODY: Final = 2 * 1024 * 1024
"""The largest body that a published node accepts: the default of its web framework."""
_LARGEST: Final = 2**53 - 1

Signatures = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Envelope:
    """`type` is the type of the envelope, which may differ from the content's `event_type`. `content` is as
    it was received."""

    event_id: str
    room_id: str
    sender: str
    type: str
    content: Mapping[str, Any] = field(repr=False)
    origin_server_ts: int
    origin: str | None = None
    state_key: str | None = None
    unsigned: Any = field(default=None, repr=False)
    signatures: Signatures | None = field(default=None, repr=False)
    hashes: Mapping[str, str] | None = None

    @property
    def sender_domain(self) -> str | None:
        """ "The sender's domain may carry a port: split at the first colon.\""""
        return domain(self.sender)


@dataclass(frozen=True, slots=True)
class MalformedEvent:
    """Why a body is not an event, and its event id; empty if the id cannot be read."""

    refusal: InvalidPayload | TooLarge
    event_id: str = ""


def read(body: bytes) -> Envelope | MalformedEvent:
    if len(body) > MAX_BODY:
        return MalformedEvent(TooLarge("The event is too large."))
    try:
        value = decode(body)
    except NotJson:
        return MalformedEvent(InvalidPayload("body", "is not JSON"))
    if not isinstance(value, dict):
        return MalformedEvent(InvalidPayload("body", "is not an object"))
    given = value.get("event_id")
    event_id = given if isinstance(given, str) and is_event_id(given) and is_unicode(given) else ""
    # The envelope adds one level of nesting around the content.
    problem = problem_of(value, MAX_DEPTH + 1)
    refusal = InvalidPayload(*problem) if problem is not None else _invalid(value)
    if refusal is not None:
        return MalformedEvent(refusal, event_id)
    return Envelope(
        event_id=value["event_id"],
        room_id=value["room_id"],
        sender=value["sender"],
        type=value["type"],
        content=value["content"],
        origin_server_ts=value["origin_server_ts"],
        origin=value.get("origin"),
        state_key=value.get("state_key"),
        unsigned=value.get("unsigned"),
        signatures=value.get("signatures"),
        hashes=value.get("hashes"),
    )


def write(envelope: Envelope) -> bytes:
    """Encode an event as published nodes do: missing fields are left out, not null."""
    members = {
        "event_id": envelope.event_id,
        "room_id": envelope.room_id,
        "sender": envelope.sender,
        "type": envelope.type,
        "content": dict(envelope.content),
        "origin_server_ts": envelope.origin_server_ts,
    }
    optional = {
        "unsigned": envelope.unsigned,
        "state_key": envelope.state_key,
        "origin": envelope.origin,
        "signatures": envelope.signatures,
        "hashes": envelope.hashes,
    }
    present = {name: value for name, value in optional.items() if value is not None}
    return orjson.dumps({**members, **present})


def _invalid(value: Mapping[str, Any]) -> InvalidPayload | None:
    for name in ("event_id", "room_id", "sender", "type", "content", "origin_server_ts"):
        if name not in value:
            return InvalidPayload(name, "is missing")
    for name in ("event_id", "room_id", "sender", "type"):
        if not isinstance(value[name], str):
            return InvalidPayload(name, "is not a string")
        if not has_valid_length(value[name]):
            return InvalidPayload(name, "is longer than 255 bytes")
    if not is_event_id(value["event_id"]):
        return InvalidPayload("event_id", "is not an event id")
    if not value["sender"].startswith(AT) or not domain(value["sender"]):
        return InvalidPayload("sender", "is not a user id, as in @worker-1:kitchen.local")
    if not isinstance(value["content"], dict):
        return InvalidPayload("content", "is not an object")
    ts = value["origin_server_ts"]
    if type(ts) is not int or not 0 <= ts <= _LARGEST:
        return InvalidPayload("origin_server_ts", "is not a time in milliseconds")
    for name in ("origin", "state_key"):
        one = value.get(name)
        if one is not None and not (isinstance(one, str) and has_valid_length(one)):
            return InvalidPayload(name, "is not a string of at most 255 bytes")
    if not _is_map_of_strings(value.get("hashes")):
        return InvalidPayload("hashes", "is not an object of strings")
    signatures = value.get("signatures")
    if signatures is not None and not (
        isinstance(signatures, dict)
        and all(keys is not None and _is_map_of_strings(keys) for keys in signatures.values())
    ):
        return InvalidPayload("signatures", "is not an object of objects of strings")
    return None


def _is_map_of_strings(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(isinstance(one, str) for one in value.values()))
