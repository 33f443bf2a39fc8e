"""This node's signing keys: their file formats, their rotation, and the document that publishes them.

Server-server API, "Publishing Keys": verify_keys hold what the server signs with now, old_verify_keys what it
signed with until `expired_ts`. Events signed before that stay valid, so an old key is never forgotten.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nacl.signing import SigningKey

from federation.signatures import decode_base64, encode_base64, sign

ALGORITHM = "ed25519"
# "SHOULD be used to determine when to fetch again": a day, so that a peer misses a rotation by a day at most.
VALIDITY_MS = 24 * 3600 * 1000


class BadKeyFile(ValueError):
    """The text of a key file is not in the `signedjson` format. Never says what the text was."""


@dataclass(frozen=True)
class OwnKey:
    """The key that this node signs with."""

    version: str
    signing_key: SigningKey = field(repr=False)

    @property
    def key_id(self) -> str:
        return f"{ALGORITHM}:{self.version}"

    @property
    def public(self) -> str:
        return encode_base64(bytes(self.signing_key.verify_key))


@dataclass(frozen=True)
class OldKey:
    """A key that this node signed with until `expired_ts`, in milliseconds."""

    version: str
    public: str
    expired_ts: int

    @property
    def key_id(self) -> str:
        return f"{ALGORITHM}:{self.version}"


@dataclass(frozen=True)
class OwnKeys:
    """All keys of this node: the one in use and those before it, oldest first."""

    current: OwnKey
    old: tuple[OldKey, ...] = ()


def key_from_seed(version: str, seed: bytes) -> OwnKey:
    return OwnKey(version, SigningKey(seed))


def rotate(keys: OwnKeys, new: OwnKey, now_ms: int) -> OwnKeys:
    """`new` takes over at `now_ms`; the key before it is kept for what it signed."""
    used = {keys.current.version, *(old.version for old in keys.old)}
    assert new.version not in used, "a key version names one key for ever"
    before = OldKey(keys.current.version, keys.current.public, now_ms)
    return OwnKeys(new, (*keys.old, before))


def published(server_name: str, keys: OwnKeys, now_ms: int) -> dict[str, Any]:
    """The answer to `GET /_matrix/key/v2/server`, signed with the key that it publishes."""
    document: dict[str, Any] = {
        "server_name": server_name,
        "valid_until_ts": now_ms + VALIDITY_MS,
        "verify_keys": {keys.current.key_id: {"key": keys.current.public}},
        "old_verify_keys": {
            old.key_id: {"key": old.public, "expired_ts": old.expired_ts} for old in keys.old
        },
    }
    return sign(document, server_name, keys.current.key_id, keys.current.signing_key)


def renew_at(document: dict[str, Any]) -> int:
    """When half of the document's life has gone: from then on a newer one is published."""
    until: int = document["valid_until_ts"]
    return until - VALIDITY_MS // 2


def described(keys: OwnKeys) -> dict[str, Any]:
    """What may be shown of the keys: never a private one."""
    return {
        "key_id": keys.current.key_id,
        "public_key": keys.current.public,
        "public_key_hex": keys.current.signing_key.verify_key.encode().hex(),
        "old_keys": {
            old.key_id: {"public_key": old.public, "expired_ts": old.expired_ts} for old in keys.old
        },
    }


def format_own_key(key: OwnKey) -> str:
    """One line in the `signedjson` format: algorithm, version, seed."""
    return f"{ALGORITHM} {key.version} {encode_base64(bytes(key.signing_key))}\n"


def parse_own_key(text: str) -> OwnKey:
    lines = text.splitlines()
    if len(lines) != 1:
        raise BadKeyFile("it must hold exactly one line")
    version, seed = _fields(lines[0], 3)
    return key_from_seed(version, _decode(seed))


def format_old_keys(keys: Sequence[OldKey]) -> str:
    """One line each, in the `signedjson` format: algorithm, version, expiry, public key."""
    return "".join(f"{ALGORITHM} {old.version} {old.expired_ts} {old.public}\n" for old in keys)


def parse_old_keys(text: str) -> tuple[OldKey, ...]:
    keys = []
    for line in text.splitlines():
        version, expired, public = _fields(line, 4)
        if not re.fullmatch(r"\d{1,16}", expired):
            raise BadKeyFile("an expiry must be a number of milliseconds")
        keys.append(OldKey(version, encode_base64(_decode(public)), int(expired)))
    return tuple(keys)


def _fields(line: str, count: int) -> list[str]:
    fields = line.split()
    if len(fields) != count or fields[0] != ALGORITHM or not re.fullmatch(r"\w{1,64}", fields[1], re.ASCII):
        raise BadKeyFile(f"each line must be `{ALGORITHM}` and {count - 1} more words")
    return fields[1:]


def _decode(text: str) -> bytes:
    data = decode_base64(text)
    if data is None:
        raise BadKeyFile("a key must be base64")
    if len(data) != 32:
        raise BadKeyFile("an Ed25519 key has 32 bytes")
    return data
