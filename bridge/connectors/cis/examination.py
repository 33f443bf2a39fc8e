"""Whether an event of a peer is taken: the room it stands in, what it says, and who says it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.connectors.cis import content, published_signature
from bridge.connectors.cis.content import UnknownType
from bridge.connectors.cis.envelope import Envelope
from bridge.connectors.cis.events import AnyEvent
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.rooms import AgentRoom, room_of
from bridge.connectors.cis.sender import HEADER, ORIGIN, SENDER, Claim, Sender, sender_of, wrong_claim
from federation.identifiers import domain

UNKNOWN_PEER: Final = Forbidden("This node does not know the peer.")
UNTRUSTED_PEER: Final = Forbidden("This node does not trust the peer.")


@dataclass(frozen=True, slots=True)
class Taken:
    """What came from whom in which room."""

    event: AnyEvent
    sender: Sender
    room: AgentRoom


@dataclass(frozen=True, slots=True)
class Kept:
    """An event of a type that nobody knows: "stored in the room, not acted on, counted"."""

    type: str
    room: AgentRoom


Examined = Taken | Kept | InvalidPayload | Forbidden


def examine_envelope(
    envelope: Envelope, peer: Peer | None, own_node: str, *, header: str | None = None
) -> Examined:
    """An event that a published node has sent over HTTP. `peer` is whom the connection belongs to, None for
    nobody we know; `header` is what `x-origin-server` says."""
    if peer is not None and peer.trusted:
        badly_signed = published_signature.refusal(envelope, peer)
        if badly_signed is not None:
            return badly_signed
    claims = (
        Claim(ORIGIN, envelope.origin),
        Claim(SENDER, envelope.sender_domain),
        Claim(HEADER, header),
    )
    return _examine(envelope.type, envelope.content, envelope.room_id, claims, peer, own_node)


def examine_pdu(
    type_: str, event_content: Mapping[str, Any], room_id: str, sender: str, peer: Peer | None, own_node: str
) -> Examined:
    """An event of a room. That its sender's server has made it has been checked; `peer` is that server."""
    return _examine(type_, event_content, room_id, (Claim(SENDER, domain(sender)),), peer, own_node)


def _examine(
    type_: str,
    event_content: Mapping[str, Any],
    room_id: str,
    claims: Sequence[Claim],
    peer: Peer | None,
    own_node: str,
) -> Examined:
    # "unknown peers are refused (403, same shape); a listed untrusted peer too"
    if peer is None:
        return UNKNOWN_PEER
    if not peer.trusted:
        return UNTRUSTED_PEER
    room = room_of(room_id, peer, own_node)
    if isinstance(room, Forbidden):
        return room
    event = content.read(type_, event_content)
    if isinstance(event, InvalidPayload):
        return event
    if isinstance(event, UnknownType):
        return wrong_claim(claims, peer) or Kept(type_, room)
    sender = sender_of(event, claims, peer, own_node)
    return sender if isinstance(sender, Forbidden) else Taken(event, sender, room)
