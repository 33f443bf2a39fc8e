"""The hashes of an event: the content hash, which detects changes, and the reference hash of its redacted
form, which is its event id."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from federation.events.redaction import redact
from federation.matrix.canonical_json import encode, encode_checked
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import decode_base64, encode_base64, encode_url_safe_base64

_NOT_HASHED: Final = frozenset({"unsigned", "signatures", "hashes"})
_NOT_SIGNED: Final = frozenset({"unsigned", "signatures"})


def content_hash(event: Mapping[str, Any], version: RoomVersion) -> bytes:
    """The SHA-256 of the event without `unsigned`, `signatures` and `hashes`."""
    return _sha256({key: value for key, value in event.items() if key not in _NOT_HASHED}, version)


def is_content_hash_valid(event: Mapping[str, Any], version: RoomVersion) -> bool:
    """Whether `hashes.sha256` is the content hash. If not, the event is handled in its redacted form."""
    hashes = event.get("hashes")
    written = hashes.get("sha256") if isinstance(hashes, dict) else None
    made = content_hash(event, version)
    # Other forms of base64 are accepted as well.
    return written == encode_base64(made) or decode_base64(written) == made


def signed_bytes(event: Mapping[str, Any], version: RoomVersion) -> bytes:
    """The bytes that a server signs, and of which the reference hash is computed: the redacted event without
    `unsigned` and `signatures`, as canonical JSON."""
    redacted = redact(event, version)
    for key in _NOT_SIGNED:
        redacted.pop(key, None)
    return canonical(redacted, version)


def event_id(event: Mapping[str, Any], version: RoomVersion) -> str:
    """The reference hash of the event, prefixed with `$`."""
    return event_id_of(signed_bytes(event, version), version)


def event_id_of(signed: bytes, version: RoomVersion) -> str:
    """The event id, computed from the signed bytes."""
    digest = hashlib.sha256(signed).digest()
    return "$" + (encode_url_safe_base64 if version.event_id_is_url_safe else encode_base64)(digest)


def _sha256(value: Mapping[str, Any], version: RoomVersion) -> bytes:
    return hashlib.sha256(canonical(value, version)).digest()


def canonical(value: Mapping[str, Any], version: RoomVersion) -> bytes:
    # `encode` has checked the whole event before parts of it are hashed, so floats need not be searched
    # again. Where floats are allowed, the slow encoder is used.
    return encode_checked(value) if version.strict_canonical_json else encode(value, strict=False)
