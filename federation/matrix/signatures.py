"""Signing JSON and checking signatures.

Specification, appendix "Signing JSON": the object without `signatures` and `unsigned` is written
canonically and signed with ed25519; the signature goes into `signatures`, under the name of whoever signs
and the id of the key.
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
# By what is left of the length, divided by four.
_PADDING: Final = ("", "===", "==", "=")

KEY_LIFETIME_CAP_MS: Final = 7 * 24 * 3600 * 1000
"""How far ahead a key is trusted, whatever it says about itself: a stolen one must run out some day."""


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
    """Every signature that was required is there and holds."""


@dataclass(frozen=True, slots=True)
class NotSigned:
    """The server's signature is required and absent."""

    server: str


@dataclass(frozen=True, slots=True)
class NeedKeys:
    """The server signed with keys of which none is known, or known to be valid long enough.

    The keys are worth asking for, once: when the same answer comes after that, the signature counts as
    absent.
    """

    missing: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class BadSignature:
    """A signature that a known key of the server must have made was not made by it."""

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
    """Either alphabet, with or without padding, as every implementation reads it; None for anything else."""
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
    """A key as a key document publishes it; None unless it is 32 bytes of base64."""
    decoded = decode_base64(public)
    if decoded is None or len(decoded) != crypto_sign_PUBLICKEYBYTES:
        return None
    return VerifyKey(decoded, valid_until_ts)


def bytes_to_sign(value: Mapping[str, Any]) -> bytes:
    """What is signed: the object without `signatures` and `unsigned`. Raises `NotCanonical`."""
    return encode({key: item for key, item in value.items() if key not in {"signatures", "unsigned"}})


def sign(value: Mapping[str, Any], server: str, key_id: str, key: SigningKey) -> dict[str, Any]:
    """The object with our signature beside those it already has. Raises `NotCanonical`."""
    return with_signature(value, server, key_id, make_signature(bytes_to_sign(value), key))


def make_signature(signed: bytes, key: SigningKey) -> str:
    return encode_base64(key.sign(signed).signature)


def with_signature(value: Mapping[str, Any], server: str, key_id: str, made: str) -> dict[str, Any]:
    """A copy in which this signature has been added; the ones of others, and of our other keys, stay."""
    signatures = dict(value.get("signatures", {}))
    signatures[server] = {**signatures.get(server, {}), key_id: made}
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
    """Check what `server` signed against those of its keys that are known, by key id.

    v1.19: signatures by unknown keys are skipped, and so are those by keys that were not valid at `signed_at`
    (None: whenever). Of what is left, *every* signature must hold, and there must be one.
    """
    made_by_server = signatures.get(server) if isinstance(signatures, dict) else None
    if not isinstance(made_by_server, dict):
        return NotSigned(server)
    key_ids = [key_id for key_id in made_by_server if key_id.startswith(_ED25519)]
    if not key_ids:
        return NotSigned(server)
    held = False
    for key_id in key_ids:
        key = keys.get(key_id)
        if key is None or (signed_at is not None and not key.is_valid_at(signed_at, now_ms)):
            continue
        if not is_valid_signature(key.public, signed, made_by_server[key_id]):
            return BadSignature(server, key_id)
        held = True
    return Verified() if held else NeedKeys({server: tuple(key_ids)})


def is_valid_signature(public: bytes, signed: bytes, made: object) -> bool:
    """Whether the owner of this public key made this signature; anything that cannot be one was not."""
    decoded = decode_base64(made)
    if decoded is None:
        return False
    try:
        nacl.signing.VerifyKey(public).verify(signed, decoded)
    except CryptoError:  # the lengths are wrong, or the signature is
        return False
    return True
