"""This server's signing keys: file formats, rotation, and the key document. And `KeyNeed`, the needs of
verification.

Server-server API, "Publishing Keys": verify_keys has the keys with which the server signs now,
old_verify_keys those with which it signed until `expired_ts`. Events signed before that stay valid, so an old
key is never deleted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from nacl.exceptions import CryptoError
from nacl.signing import SigningKey
from signedjson.key import encode_verify_key_base64, read_old_signing_keys, read_signing_keys
from signedjson.types import BaseKey

from federation.events.event_signatures import required_signatures
from federation.events.pdu import Pdu
from federation.keys.key_documents import ServerKey
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import encode_base64, sign

ALGORITHM = "ed25519"
# "SHOULD be used to determine when to fetch again": a day, so that a peer misses a rotation by a day at most.
VALIDITY_MS = 24 * 3600 * 1000


class BadKeyFile(ValueError):
    """A key file is not in the `signedjson` format. The message never contains its text."""


@dataclass(frozen=True)
class LocalKey:
    """The key with which this server signs."""

    version: str
    signing_key: SigningKey = field(repr=False)

    @property
    def key_id(self) -> str:
        return f"{ALGORITHM}:{self.version}"

    @property
    def public(self) -> str:
        return encode_base64(bytes(self.signing_key.verify_key))


@dataclass(frozen=True)
class OldLocalKey:
    """A key with which this server signed until `expired_ts`, in milliseconds."""

    version: str
    public: str
    expired_ts: int

    @property
    def key_id(self) -> str:
        return f"{ALGORITHM}:{self.version}"


@dataclass(frozen=True)
class LocalKeys:
    """All keys of this server: the current one, and the old ones, oldest first."""

    current: LocalKey
    old: tuple[OldLocalKey, ...] = ()


def key_from_seed(version: str, seed: bytes) -> LocalKey:
    return LocalKey(version, SigningKey(seed))


def rotate(keys: LocalKeys, new: LocalKey, now_ms: int) -> LocalKeys:
    """Make `new` the current key from `now_ms`, and keep the previous one for verification."""
    used = {keys.current.version, *(old.version for old in keys.old)}
    assert new.version not in used, "a key version identifies one key forever"
    before = OldLocalKey(keys.current.version, keys.current.public, now_ms)
    return LocalKeys(new, (*keys.old, before))


def make_key_document(server_name: str, keys: LocalKeys, now_ms: int) -> dict[str, Any]:
    """The response to `GET /_matrix/key/v2/server`, signed with the current key."""
    document: dict[str, Any] = {
        "server_name": server_name,
        "valid_until_ts": now_ms + VALIDITY_MS,
        "verify_keys": {keys.current.key_id: {"key": keys.current.public}},
        "old_verify_keys": {old.key_id: {"key": old.public, "expired_ts": old.expired_ts} for old in keys.old},
    }
    return sign(document, server_name, keys.current.key_id, keys.current.signing_key)


def renewal_time(document: dict[str, Any]) -> int:
    """The time at which half of the document's validity has passed and a new one is published."""
    until: int = document["valid_until_ts"]
    return until - VALIDITY_MS // 2


def describe(keys: LocalKeys) -> dict[str, Any]:
    """The public parts of the keys."""
    return {
        "key_id": keys.current.key_id,
        "public_key": keys.current.public,
        "public_key_hex": keys.current.signing_key.verify_key.encode().hex(),
        "old_keys": {old.key_id: {"public_key": old.public, "expired_ts": old.expired_ts} for old in keys.old},
    }


def format_local_key(key: LocalKey) -> str:
    """One line in the `signedjson` format: algorithm, version, seed."""
    return f"{ALGORITHM} {key.version} {encode_base64(bytes(key.signing_key))}\n"


def parse_local_key(text: str) -> LocalKey:
    try:
        [key] = read_signing_keys(text.splitlines())
    except (ValueError, CryptoError):
        raise BadKeyFile(f"it must hold one line: `{ALGORITHM}`, a version, and 32 bytes of base64") from None
    return key_from_seed(_version(key), bytes(key))


def format_old_keys(keys: Sequence[OldLocalKey]) -> str:
    """One line each, in the `signedjson` format: algorithm, version, expiry, public key."""
    return "".join(f"{ALGORITHM} {old.version} {old.expired_ts} {old.public}\n" for old in keys)


def parse_old_keys(text: str) -> tuple[OldLocalKey, ...]:
    try:
        keys = read_old_signing_keys(text.splitlines())
    except (ValueError, CryptoError):
        raise BadKeyFile(f"each line must be `{ALGORITHM}`, a version, milliseconds, and a key") from None
    return tuple(OldLocalKey(_version(key), encode_verify_key_base64(key), key.expired) for key in keys)


def _version(key: BaseKey) -> str:
    if not re.fullmatch(r"\w{1,64}", key.version, re.ASCII):
        raise BadKeyFile("a version must consist of letters, digits and underscores")
    return key.version


ANY_TIME: Final = 0
"""For signatures whose key need not be valid at a certain time."""

MIN_DOCUMENT_VALIDITY_MS: Final = 3600 * 1000
"""The minimum validity of a document: none is published for less than an hour."""


class KeyNeed(NamedTuple):
    """The need for a key of a server that was valid at a time, in milliseconds."""

    server: str
    key_id: str
    valid_at: int = ANY_TIME


def required_keys(pdu: Pdu, version: RoomVersion) -> frozenset[KeyNeed]:
    """The keys of the required signatures of an event."""
    valid_at = pdu.origin_server_ts if version.enforces_key_validity else ANY_TIME
    needs = set()
    for required in required_signatures(pdu, version):
        made = pdu.signatures.get(required.server)
        if isinstance(made, dict):
            needs |= {KeyNeed(required.server, key_id, valid_at) for key_id in made if is_known_algorithm(key_id)}
    return frozenset(needs)


def is_known_algorithm(key_id: str) -> bool:
    return key_id.startswith("ed25519:")


def satisfies(key: ServerKey | None, need: KeyNeed, now_ms: int) -> bool:
    """Whether the key satisfies the need without a fetch. An expired key does not change any more.

    An event from the future is no reason to fetch: no document is valid for that long.
    """
    if key is None:
        return False
    return key.expired_ts is not None or key.valid_until_ts >= min(need.valid_at, now_ms + MIN_DOCUMENT_VALIDITY_MS)


def unmet_needs(
    needs: Iterable[KeyNeed], known: Mapping[str, Mapping[str, ServerKey]], now_ms: int
) -> dict[str, tuple[KeyNeed, ...]]:
    """The needs that the known keys do not satisfy, by server."""
    left: dict[str, tuple[KeyNeed, ...]] = {}
    for need in needs:
        if not _is_met(need, known.get(need.server, {}), now_ms):
            left[need.server] = (*left.get(need.server, ()), need)
    return left


def _is_met(need: KeyNeed, keys: Mapping[str, ServerKey], now_ms: int) -> bool:
    return satisfies(keys.get(need.key_id), need, now_ms)
