"""Signing JSON and checking signatures.

Specification, appendix "Signing JSON": the object without `signatures` and `unsigned` is encoded canonically
and signed with ed25519. The signature is added to `signatures`, under the name of the signing server and the
key id.
"""

import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import nacl.signing
from nacl.bindings import crypto_sign_PUBLICKEYBYTES
from nacl.exceptions import CryptoError
from nacl.signing import SigningKey

from federation.matrix.canonical_json import encode

_ED25519: Final = "ed25519:"
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
# Indexed by the length modulo four.
_PADDING: Final = ("", "===", "==", "=")

KEY_LIFETIME_CAP_MS: Final = 7 * 24 * 3600 * 1000
"""How long a key is trusted at most, whatever its document claims, so that trust in a stolen key ends."""


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """A server's public key. An old key's `valid_until_ts` is its `expired_ts`."""

    public: bytes
    valid_until_ts: int

    def is_valid_at(self, origin_server_ts: int, now_ms: int) -> bool:
        """Room version 5: "servers MUST enforce the `valid_until_ts` property […] is at least as large as the
        `origin_server_ts` for the event being validated", and "MUST use the lesser of `valid_until_ts` and 7
        days into the future"."""
        return min(self.valid_until_ts, now_ms + KEY_LIFETIME_CAP_MS) >= origin_server_ts


@dataclass(frozen=True, slots=True)
class Verified:
    """All required signatures exist and are valid."""


@dataclass(frozen=True, slots=True)
class NotSigned:
    """The required signature of the server is missing."""

    server: str


@dataclass(frozen=True, slots=True)
class NeedKeys:
    """The server signed only with keys that are unknown, or not known to be valid at the time.

    The caller fetches the keys once. If the result is the same after that, the signature counts as missing.
    """

    missing: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BadSignature:
    """A signature by a known key of the server is invalid."""

    server: str
    key_id: str


Verification = Verified | NotSigned | NeedKeys | BadSignature


def encode_base64(data: bytes) -> str:
    """Unpadded base64, standard alphabet: signatures, keys, content hashes."""
    return binascii.b2a_base64(data, newline=False).rstrip(b"=").decode("ascii")


def encode_url_safe_base64(data: bytes) -> str:
    """Unpadded base64, URL-safe alphabet: event ids from room version 4."""
    return binascii.b2a_base64(data, newline=False).rstrip(b"=").translate(_URL_SAFE).decode("ascii")


def decode_base64(text: object) -> bytes | None:
    """Decode either alphabet, with or without padding, like other implementations. None if the text is
    invalid."""
    if not isinstance(text, str) or not text.isascii():
        return None
    unpadded = text.rstrip("=") if text[-1:] == "=" else text
    if "-" in unpadded or "_" in unpadded:
        unpadded = unpadded.replace("-", "+").replace("_", "/")
    try:
        return binascii.a2b_base64(unpadded + _PADDING[len(unpadded) % 4], strict_mode=True)
    except binascii.Error:
        return None


def verify_key(public: object, valid_until_ts: int) -> VerifyKey | None:
    """The key of a key document. None unless it is base64 of 32 bytes."""
    decoded = decode_base64(public)
    if decoded is None or len(decoded) != crypto_sign_PUBLICKEYBYTES:
        return None
    return VerifyKey(decoded, valid_until_ts)


def bytes_to_sign(value: Mapping[str, Any]) -> bytes:
    """The bytes that are signed: the object without `signatures` and `unsigned`. Raises `NotCanonical`."""
    return encode({key: item for key, item in value.items() if key not in {"signatures", "unsigned"}})


def sign(value: Mapping[str, Any], server: str, key_id: str, key: SigningKey) -> dict[str, Any]:
    """The object with this signature added to the existing ones. Raises `NotCanonical`."""
    return with_signature(value, server, key_id, make_signature(bytes_to_sign(value), key))


def make_signature(signed: bytes, key: SigningKey) -> str:
    return encode_base64(key.sign(signed).signature)


def with_signature(value: Mapping[str, Any], server: str, key_id: str, signature: str) -> dict[str, Any]:
    """A copy with this signature added. Signatures of other servers and other keys stay."""
    signatures = dict(value.get("signatures", {}))
    signatures[server] = {**signatures.get(server, {}), key_id: signature}
    return {**value, "signatures": signatures}


def verify(
    signed: bytes,
    signatures: object,
    server: str,
    keys: Mapping[str, VerifyKey],
    *,
    signed_at: int | None = None,
    now_ms: int = 0,
) -> Verification:
    """Verify the signatures of `server` with its known keys, by key id.

    v1.19: signatures by unknown keys are skipped, and so are signatures by keys that were not valid at
    `signed_at` (None: at any time). *Every* remaining signature must be valid, and there must be at least
    one.
    """
    server_signatures = signatures.get(server) if isinstance(signatures, dict) else None
    if not isinstance(server_signatures, dict):
        return NotSigned(server)
    key_ids = [key_id for key_id in server_signatures if key_id.startswith(_ED25519)]
    if not key_ids:
        return NotSigned(server)
    is_verified = False
    for key_id in key_ids:
        key = keys.get(key_id)
        if key is None or (signed_at is not None and not key.is_valid_at(signed_at, now_ms)):
            continue
        if not is_valid_signature(key.public, signed, server_signatures[key_id]):
            return BadSignature(server, key_id)
        is_verified = True
    return Verified() if is_verified else NeedKeys({server: tuple(key_ids)})


def is_valid_signature(public: bytes, signed: bytes, signature: object) -> bool:
    """Whether the signature was made with the private key of `public`. False for a malformed signature."""
    decoded = decode_base64(signature)
    if decoded is None:
        return False
    try:
        nacl.signing.VerifyKey(public).verify(signed, decoded)
    except CryptoError:  # a wrong length, or an invalid signature
        return False
    return True
