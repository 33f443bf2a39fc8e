"""Authentication of events from published nodes, and the signed form of events for them.

Published nodes sign and check different bytes. Both signatures are Ed25519 in hexadecimal over compact JSON
with sorted keys, non-ASCII characters as UTF-8 and floats as `1.0`. "Signing covers `event_id room_id sender
type content origin_server_ts origin` (origin defaults to the server). Checking covers `event_id room_id
sender event_type content origin_server_ts`."

From 1e16 on, some versions of the published node's library write floats with `e+` and others with `e`. An
event with such a float does not verify if it comes from one of the others.

A peer is authenticated by "an allowed source network plus a signature if a key is configured", or by the
certificate of its connection. The names in the event only decide between peers that share a network.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from hashlib import sha256
from typing import Any, Final

import orjson
from nacl.exceptions import BadSignatureError
from nacl.exceptions import ValueError as NaclValueError
from nacl.signing import SigningKey, VerifyKey

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol import content, envelope, event_fields
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.refusals import Forbidden
from bridge.connectors.cis.protocol.rooms import room_id, target_room
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.ghost import NoGhost, user_id
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from federation.matrix.networks import Address, is_within

KEY_ID: Final = "ed25519:0"
_SIGNATURE_DIGITS: Final = 128
_MAX_CHECKED: Final = 8

NOT_SIGNED: Final = Forbidden("The event is not signed by the peer.")
BADLY_SIGNED: Final = Forbidden("The event's signature is not the peer's.")


class SignatureCheck(Enum):
    """The result of checking the signatures of an event."""

    VALID = auto()
    ABSENT = auto()
    INVALID = auto()


def signing_form(envelope: Envelope, server: str) -> bytes:
    return _written({**_common(envelope), "type": envelope.type, "origin": envelope.origin or server})


def checking_form(envelope: Envelope) -> bytes:
    return _written({**_common(envelope), "event_type": envelope.type})


def digest(envelope: Envelope) -> str:
    """ "`hashes.sha256` is hex over the first six fields, with `type`." It also shows whether a repeated
    event is the same as before."""
    return sha256(_written({**_common(envelope), "type": envelope.type})).hexdigest()


def sign(envelope: Envelope, server: str, key: SigningKey) -> Envelope:
    """Return the envelope with its hash and the signature that a published sender would make."""
    signature = key.sign(signing_form(envelope, server)).signature.hex()
    return replace(envelope, signatures={server: {KEY_ID: signature}}, hashes={"sha256": digest(envelope)})


def check_signature(envelope: Envelope, peer: Peer) -> SignatureCheck:
    """ "checked with the configured key against the published signing form, then the published checking form.
    Keys never come from a DID in the event." One of the peer's signatures must be valid."""
    signatures = [
        signature
        for server, by_key in (envelope.signatures or {}).items()
        if peer.is_named_by(server)
        for signature in by_key.values()
    ]
    if not signatures or peer.public_key is None:
        return SignatureCheck.ABSENT
    forms = (signing_form(envelope, peer.node_id), checking_form(envelope))
    is_valid = any(
        _is_valid(peer.public_key, form, signature) for signature in signatures[:_MAX_CHECKED] for form in forms
    )
    return SignatureCheck.VALID if is_valid else SignatureCheck.INVALID


def signature_refusal(envelope: Envelope, peer: Peer) -> Forbidden | None:
    """Return a refusal if the event's signature does not meet the peer's settings."""
    if peer.public_key is None:
        return NOT_SIGNED if peer.require_signature else None
    match check_signature(envelope, peer):
        case SignatureCheck.VALID:
            return None
        case SignatureCheck.INVALID:
            return BADLY_SIGNED
        case SignatureCheck.ABSENT:
            return NOT_SIGNED if peer.require_signature else None


def _common(envelope: Envelope) -> dict[str, Any]:
    return {
        "event_id": envelope.event_id,
        "room_id": envelope.room_id,
        "sender": envelope.sender,
        "content": dict(envelope.content),
        "origin_server_ts": envelope.origin_server_ts,
    }


def _written(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _is_valid(public: bytes, message: bytes, signature: str) -> bool:
    if len(signature) != _SIGNATURE_DIGITS:
        return False
    try:
        VerifyKey(public).verify(message, bytes.fromhex(signature))
    except (BadSignatureError, NaclValueError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Source:
    """The connection on which an event arrived. `address` is None if the connection has been closed;
    `certified_peers` are the peers named by its client certificate, in lower case; `header` is the value of
    `x-origin-server`."""

    address: Address | None
    certified_peers: frozenset[str] = frozenset()
    header: str | None = None

    def may_be_peer(self, settings: CisSettings) -> bool:
        """Return whether the connection can belong to a configured peer."""
        return any(self._may_be(access) for access in settings.published_or_refused())

    def candidates(self, settings: CisSettings) -> list[Peer]:
        return [access.peer for access in settings.published_or_refused() if self._may_be(access)]

    def _may_be(self, access: PeerAccess) -> bool:
        if access.peer.node_id.lower() in self.certified_peers:
            return True
        return self.address is not None and is_within(self.address, access.networks)


def identify_peer(event: Envelope, source: Source, settings: CisSettings) -> Peer | None:
    """Return the peer that sent the event. If only one peer can have sent it, the names in the event do not
    matter here; `examination` checks them."""
    candidates = source.candidates(settings)
    if len(candidates) == 1:
        return candidates[0]
    for claim in _claims(event, source):
        for peer in candidates:
            if peer.is_named_by(claim):
                return peer
    return None


def _claims(event: Envelope, source: Source) -> Iterable[str]:
    """Return the names of the origin in the order in which a published node considers them."""
    claims = (event.origin, event.sender_domain, source.header)
    return [claim for claim in claims if claim is not None]


def signed_body(
    event: AnyEvent, event_id: str, sender: AgentAddress, namespace: str, settings: CisSettings, key: SigningKey
) -> bytes:
    """Return an event of this node as the signed body for a published node: "Sent with the signing form". The
    room is the one in which the event would be sent to a homeserver."""
    ghost = user_id(sender)
    unsigned = Envelope(
        event_id=event_id,
        room_id=room_id(target_room(event, settings.node_id, namespace)),
        sender=settings.node_user if isinstance(ghost, NoGhost) else ghost,
        type=event.TYPE,
        content=content.render(event, PeerProfile.CIS_1_1),
        origin_server_ts=event_fields.to_milliseconds(event.timestamp),
        origin=settings.node_id,
    )
    return envelope.write(sign(unsigned, settings.node_id, key))
