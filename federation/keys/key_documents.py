"""The key documents of other servers: which of the keys are accepted, and what they may verify.

Server-server API, "Publishing Keys" and "Querying Keys Through Another Server".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.identifiers import is_key_id
from federation.matrix.signatures import KEY_LIFETIME_CAP_MS, Verified, VerifyKey, bytes_to_sign, verify, verify_key

DIRECT: Final = "direct"
"""The source of a key fetched from its own server. Otherwise the source is the notary's name."""

MAX_KEYS: Final = 64
"""Maximum number of `verify_keys` of one server. Each costs a signature check."""
MAX_OLD_KEYS: Final = 1024

_ED25519: Final = "ed25519:"
_LAST_MS: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class ServerKey:
    """One key of another server. `expired_ts`: since when the server no longer signs with it."""

    server: str
    key_id: str
    public: bytes
    valid_until_ts: int
    expired_ts: int | None
    fetched_at: int
    source: str

    @property
    def valid_until(self) -> int:
        """The time until which signatures of this key are valid."""
        return self.valid_until_ts if self.expired_ts is None else self.expired_ts

    def for_events(self) -> VerifyKey:
        """The key for verifying events: "old_verify_keys […] are only valid for signing events", and only
        until they expired. Whether the time is enforced is a switch of the room version."""
        return VerifyKey(self.public, self.valid_until)

    def for_requests(self, now_ms: int) -> VerifyKey | None:
        """The key for verifying a request, or None if it is not valid now."""
        if self.expired_ts is not None or self.valid_until_ts < now_ms:
            return None
        return VerifyKey(self.public, self.valid_until_ts)


@dataclass(frozen=True, slots=True)
class KeyDocument:
    """The accepted keys, and the document that proves them to other servers: the object that the server
    signed, with its signatures, as canonical JSON."""

    document: bytes
    keys: tuple[ServerKey, ...]


@dataclass(frozen=True, slots=True)
class InvalidKeyDocument:
    """No key in the document is accepted; `problem` says why."""

    problem: str


@dataclass(frozen=True, slots=True)
class NotaryKeys:
    """A notary server of the configuration, and its keys."""

    server_name: str
    keys: Mapping[str, VerifyKey]


def parse_key_document(
    document: Any, server_name: str, now_ms: int, notary: NotaryKeys | None = None
) -> KeyDocument | InvalidKeyDocument:
    """Check the key document of `server_name`. A document from a notary must also be signed by the notary."""
    if not isinstance(document, dict):
        return InvalidKeyDocument("is not a JSON object")
    # "server_name: The homeserver's server name."
    if document.get("server_name") != server_name:
        return InvalidKeyDocument("belongs to another server")
    until = _timestamp(document.get("valid_until_ts"))
    if until is None:
        return InvalidKeyDocument("has no valid_until_ts")
    # "Servers MUST use the lesser of this field and 7 days into the future when determining if a key is
    # valid."
    until = min(until, now_ms + KEY_LIFETIME_CAP_MS)
    published, old = document.get("verify_keys"), document.get("old_verify_keys", {})
    if not isinstance(published, dict) or not isinstance(old, dict):
        return InvalidKeyDocument("has no verify_keys")
    if len(published) > MAX_KEYS or len(old) > MAX_OLD_KEYS:
        return InvalidKeyDocument(f"has more than {MAX_KEYS} verify_keys or {MAX_OLD_KEYS} old_verify_keys")
    try:
        signed = bytes_to_sign(document)
    except NotCanonical:
        return InvalidKeyDocument("has no canonical JSON form, so it cannot have been signed")
    current = _public_keys(published)
    # "Digital signatures for this object signed using the verify_keys." A listed key that did not sign is not
    # accepted: the server may not have its private key.
    signatures = _signatures(document, server_name)
    signing = {key_id: key for key_id, key in current.items() if key_id in signatures}
    if verify(signed, {server_name: signatures}, server_name, signing) != Verified():
        return InvalidKeyDocument("is not signed with the keys that it publishes")
    if notary is not None:
        # "The notary server must sign the keys returned by the queried server."
        by_notary = {notary.server_name: _signatures(document, notary.server_name)}
        if verify(signed, by_notary, notary.server_name, notary.keys) != Verified():
            return InvalidKeyDocument("is not signed by the notary that sent it")
    source = DIRECT if notary is None else notary.server_name
    keys = [ServerKey(server_name, key_id, key.public, until, None, now_ms, source) for key_id, key in signing.items()]
    for key_id, key in _public_keys(old).items():
        expired = _timestamp(old[key_id].get("expired_ts"))
        if expired is not None and key_id not in current:
            keys.append(ServerKey(server_name, key_id, key.public, until, expired, now_ms, source))
    unsigned = {name: value for name, value in document.items() if name not in {"signatures", "unsigned"}}
    proof = {**unsigned, "signatures": {server_name: {key_id: signatures[key_id] for key_id in signing}}}
    return KeyDocument(encode(proof), tuple(keys))


def merge_keys(stored: ServerKey | None, fetched: ServerKey, now_ms: int) -> ServerKey:
    """Merge a fetched key with the stored one.

    A key id identifies one key forever, so a document with a different key under a known id is a mistake or
    an attack. It changes nothing while the stored key is valid, or if it is an old key. After that the server
    may have been reinstalled under its old name.
    """
    if stored is None:
        return fetched
    if stored.public != fetched.public:
        was_current = stored.expired_ts is None
        return fetched if was_current and stored.valid_until_ts < now_ms else stored
    ends = [key.expired_ts for key in (stored, fetched) if key.expired_ts is not None]
    # The later validity counts, wherever it comes from: one of the two may be an outdated cached response.
    longer = fetched if fetched.valid_until_ts >= stored.valid_until_ts else stored
    # An old key stays old, and its earliest expiry counts: it may have been stolen at that time.
    return replace(longer, expired_ts=min(ends)) if ends else longer


def _public_keys(published: Mapping[str, Any]) -> dict[str, VerifyKey]:
    """The ed25519 keys. Keys of other algorithms and malformed keys are skipped."""
    found = {}
    for key_id, entry in published.items():
        if key_id.startswith(_ED25519) and is_key_id(key_id) and isinstance(entry, dict):
            key = verify_key(entry.get("key"), 0)
            if key is not None:
                found[key_id] = key
    return found


def _signatures(document: Mapping[str, Any], server_name: str) -> dict[str, Any]:
    signatures = document.get("signatures")
    of_server = signatures.get(server_name) if isinstance(signatures, dict) else None
    return of_server if isinstance(of_server, dict) else {}


def _timestamp(value: Any) -> int | None:
    is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LAST_MS
    return value if is_valid else None
