"""Signatures as published nodes make them, and as they check them, which is not the same.

Both are ed25519 in hexadecimal over compact JSON with sorted keys, non-ASCII characters as UTF-8 and floats
as `1.0`. "Signing covers `event_id room_id sender type content origin_server_ts origin` (origin defaults to
the server). Checking covers `event_id room_id sender event_type content origin_server_ts`."

From 1e16 on floats are written with `e+` by some versions of the published node's library and with `e` by
others. An event that holds one and comes from the others does not verify.

Which peer a single event over HTTP is from.

"for `cis-1.1`, an allowed source network plus a signature if a key is configured", or the certificate that
its connection has shown. What the event says of itself only decides between peers that share a network.

An event of ours as a published node gets it.
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
from bridge.connectors.cis.protocol import content, envelope
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.refusals import Forbidden
from bridge.connectors.cis.protocol.rooms import room_for, room_id
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.ghost import NoGhost, user_id
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from federation.matrix.networks import Address, is_within

KEY_ID: Final = "ed25519:0"
_SIGNATURE_DIGITS: Final = 128
_MOST_TRIED: Final = 8

NOT_SIGNED: Final = Forbidden("The event is not signed by the peer.")
BADLY_SIGNED: Final = Forbidden("The event's signature is not the peer's.")


class Signed(Enum):
    """What the signatures of an event are worth."""

    HOLDS = auto()
    ABSENT = auto()
    BAD = auto()


def signing_form(envelope: Envelope, server: str) -> bytes:
    return _written({**_common(envelope), "type": envelope.type, "origin": envelope.origin or server})


def checking_form(envelope: Envelope) -> bytes:
    return _written({**_common(envelope), "event_type": envelope.type})


def digest(envelope: Envelope) -> str:
    """ "`hashes.sha256` is hex over the first six fields, with `type`." It also tells whether an event that
    comes again is the same one."""
    return sha256(_written({**_common(envelope), "type": envelope.type})).hexdigest()


def signed(envelope: Envelope, server: str, key: SigningKey) -> Envelope:
    """With the signature that the published signing side makes, and the hash."""
    made = key.sign(signing_form(envelope, server)).signature.hex()
    return replace(envelope, signatures={server: {KEY_ID: made}}, hashes={"sha256": digest(envelope)})


def check(envelope: Envelope, peer: Peer) -> Signed:
    """ "checked with the configured key against the published signing form, then the published checking form.
    Keys never come from a DID in the event." One of the peer's signatures must hold."""
    made = [
        signature
        for server, by_key in (envelope.signatures or {}).items()
        if peer.is_named_by(server)
        for signature in by_key.values()
    ]
    if not made or peer.public_key is None:
        return Signed.ABSENT
    forms = (signing_form(envelope, peer.node_id), checking_form(envelope))
    holds = any(_holds(peer.public_key, form, one) for one in made[:_MOST_TRIED] for form in forms)
    return Signed.HOLDS if holds else Signed.BAD


def refusal(envelope: Envelope, peer: Peer) -> Forbidden | None:
    """Whether the peer's settings let an event pass as it is signed."""
    if peer.public_key is None:
        return NOT_SIGNED if peer.require_signature else None
    match check(envelope, peer):
        case Signed.HOLDS:
            return None
        case Signed.BAD:
            return BADLY_SIGNED
        case Signed.ABSENT:
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


def _holds(public: bytes, message: bytes, signature: str) -> bool:
    if len(signature) != _SIGNATURE_DIGITS:
        return False
    try:
        VerifyKey(public).verify(message, bytes.fromhex(signature))
    except (BadSignatureError, NaclValueError, ValueError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Source:
    """`address` is None for a connection that is gone. `shown`: the peers that its certificate speaks for, in
    lower case. `header` is what `x-origin-server` says."""

    address: Address | None
    shown: frozenset[str] = frozenset()
    header: str | None = None

    def may_be_somebody(self, settings: CisSettings) -> bool:
        """Whether anybody that we know might be at the other end."""
        return any(self._may_be(access) for access in settings.takers_of_events())

    def candidates(self, settings: CisSettings) -> list[Peer]:
        return [access.peer for access in settings.takers_of_events() if self._may_be(access)]

    def _may_be(self, access: PeerAccess) -> bool:
        if access.peer.node_id.lower() in self.shown:
            return True
        return self.address is not None and is_within(self.address, access.networks)


def peer_of(event: Envelope, source: Source, settings: CisSettings) -> Peer | None:
    """Where only one can have sent it, it has, whatever the event says: that is looked at afterwards."""
    candidates = source.candidates(settings)
    if len(candidates) == 1:
        return candidates[0]
    for claim in _claims(event, source):
        for peer in candidates:
            if peer.is_named_by(claim):
                return peer
    return None


def _claims(event: Envelope, source: Source) -> Iterable[str]:
    """In the order in which a published node believes them."""
    claims = (event.origin, event.sender_domain, source.header)
    return [claim for claim in claims if claim is not None]


def written(
    event: AnyEvent,
    event_id: str,
    speaker: AgentAddress,
    namespace: str,
    settings: CisSettings,
    key: SigningKey,
) -> bytes:
    """ "Sent with the signing form". The room is the one in which it would be said."""
    ghost = user_id(speaker)
    made = Envelope(
        event_id=event_id,
        room_id=room_id(room_for(event, settings.node_id, namespace)),
        sender=settings.node_user if isinstance(ghost, NoGhost) else ghost,
        type=event.TYPE,
        content=content.render(event, PeerProfile.CIS_1_1),
        origin_server_ts=timestamps.milliseconds(event.timestamp),
        origin=settings.node_id,
    )
    return envelope.write(signed(made, settings.node_id, key))
