"""The signatures that an event needs, and their verification: step 2 of the checks on receipt of a PDU.

Server-server API, "Checks performed on receipt of a PDU": "2. Passes signature checks, otherwise it is
dropped."
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nacl.signing import SigningKey

from federation.events.hashes import content_hash, signed_bytes
from federation.events.pdu import Pdu
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import (
    NeedKeys,
    Verification,
    Verified,
    VerifyKey,
    encode_base64,
    make_signature,
    verify,
    with_signature,
)


@dataclass(frozen=True, slots=True)
class RequiredSignature:
    """A server that must have signed the event, and why."""

    server: str
    reason: str


def required_signatures(pdu: Pdu, version: RoomVersion) -> list[RequiredSignature]:
    """The servers that must have signed: the sender's, and the one that authorised a restricted join."""
    required = []
    membership = pdu.membership if pdu.type == "m.room.member" else None
    # "Events must be signed by the server denoted by the `sender` property." A third-party invite is
    # exempt: its sender is that of the `m.room.third_party_invite`, but any server may send it.
    if not (membership == "invite" and "third_party_invite" in pdu.content):
        required.append(RequiredSignature(domain(pdu.sender) or "", "the sender's server"))
    # From version 8 a join with `join_authorised_via_users_server` must be "validly signed by the
    # homeserver of the user ID denoted by the key". An invalid user id can be signed by no server.
    if version.restricted_joins and membership == "join":
        authoriser = pdu.content.get("join_authorised_via_users_server")
        if "join_authorised_via_users_server" in pdu.content:
            server = domain(authoriser) if isinstance(authoriser, str) else None
            required.append(RequiredSignature(server or "", "join_authorised_via_users_server"))
    return required


def verify_event(
    pdu: Pdu, version: RoomVersion, keys: Mapping[str, Mapping[str, VerifyKey]], now_ms: int
) -> Verification:
    """Verify the required signatures of the event with the known keys, by server and key id.

    Returns the first signature that is missing or wrong. Otherwise `NeedKeys` names all servers whose keys
    are needed.
    """
    signed = signed_bytes(pdu.event, version)
    missing: dict[str, tuple[str, ...]] = {}
    for server in {required.server: None for required in required_signatures(pdu, version)}:
        result = verify(
            signed,
            pdu.signatures,
            server,
            keys.get(server, {}),
            signed_at=pdu.origin_server_ts if version.enforces_key_validity else None,
            now_ms=now_ms,
        )
        if isinstance(result, NeedKeys):
            missing.update(result.missing)
        elif not isinstance(result, Verified):
            return result
    return NeedKeys(missing) if missing else Verified()


def add_signature(
    event: Mapping[str, Any], version: RoomVersion, server: str, key_id: str, key: SigningKey
) -> dict[str, Any]:
    """The event with this signature added to the existing ones, as for an invite or a restricted join."""
    return with_signature(event, server, key_id, make_signature(signed_bytes(event, version), key))


def hash_and_sign(
    event: Mapping[str, Any], version: RoomVersion, server: str, key_id: str, key: SigningKey
) -> dict[str, Any]:
    """Add the content hash to a local event and sign it. The signature covers the hash."""
    hashed = {**event, "hashes": {"sha256": encode_base64(content_hash(event, version))}}
    return add_signature({**hashed, "signatures": {}}, version, server, key_id, key)
