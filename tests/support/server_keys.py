"""Key documents of other servers, signed correctly or not."""

from collections.abc import Mapping, Sequence
from typing import Any

from federation.keys.server_keys import LocalKey, key_from_seed
from federation.matrix.signatures import encode_base64, sign

NOW = 1_700_000_000_000
DAY = 24 * 3600 * 1000


def key(version: str, seed: str = "") -> LocalKey:
    """Return the key derived from this text."""
    return key_from_seed(version, (seed + version).encode().ljust(32, b".")[:32])


def key_document(
    server_name: str,
    *keys: LocalKey,
    until: Any = NOW + DAY,
    old: Mapping[str, Any] | None = None,
    signers: Sequence[LocalKey] | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the response of `/_matrix/key/v2/server`, signed by all its keys, or by `signers`."""
    document: dict[str, Any] = {
        "server_name": server_name,
        "valid_until_ts": until,
        "verify_keys": {one.key_id: {"key": one.public} for one in keys},
        "old_verify_keys": dict(old or {}),
        **(more or {}),
    }
    for signer in keys if signers is None else signers:
        document = sign(document, server_name, signer.key_id, signer.signing_key)
    return document


def old_key(one: LocalKey, expired_ts: Any) -> dict[str, Any]:
    return {one.key_id: {"key": one.public, "expired_ts": expired_ts}}


def public(one: LocalKey) -> bytes:
    return bytes(one.signing_key.verify_key)


def text(one: LocalKey) -> str:
    return encode_base64(public(one))
