"""Whether an event of a peer is accepted: the room it stands in, its content, and its sender.

An event comes from the authenticated peer and from no other node: "`origin`, the sender's domain, that
header, `node_id` and the node of `from_agent` must all name that peer." How the peer was authenticated
(X-Matrix, mTLS, an allowed network) does not matter here.

A homeserver may have people besides agents. It vouches for what its users send, but not for a person being an
agent: an agent's events are sent by its own user, `@worker-1:kitchen.local`, or by its node's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol import published as published_signature
from bridge.connectors.cis.protocol.content import UnknownType
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.events import AgentEvent, AnyEvent, TaskRequest, Unregistered
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.protocol.rooms import AgentRoom, room_of
from bridge.matrix.ghost import NODE_USER, NoGhost, user_id
from bridge.peers.peer import Peer, PeerProfile
from federation.matrix.identifiers import domain, localpart

PROXY: Final = "proxy"


@dataclass(frozen=True, slots=True)
class From:
    """The agent that says it. `is_proxy`: it is the peer's proxy, which names the target as its own address;
    its answer bears the addresses as they were given."""

    agent: AgentAddress
    is_proxy: bool = False


@dataclass(frozen=True, slots=True)
class ToldGone:
    """The peer has not heard of an agent of ours for too long. If it lives, it is registered anew."""

    agent: AgentAddress


Sender = From | ToldGone


SENDER: Final = "sender"
ORIGIN: Final = "origin"
HEADER: Final = "x-origin-server header"


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says is the server an event comes from; None if nothing is said. `what` is one of the
    three above."""

    what: str
    server: str | None


def wrong_claim(claims: Iterable[Claim], peer: Peer, *, but: Claim | None = None) -> Forbidden | None:
    for claim in claims:
        if claim.server is not None and not peer.is_named_by(claim.server) and claim != but:
            return Forbidden(f"The {claim.what} does not name the peer that sent this.")
    return None


def sender_of(event: AnyEvent, claims: Iterable[Claim], peer: Peer, own_node: str) -> Sender | Forbidden:
    is_proxy = _is_from_proxy(event, peer)
    wrong = wrong_claim(claims, peer, but=Claim(SENDER, _node(event)) if is_proxy else None)
    if wrong is not None:
        return wrong
    if is_proxy:
        # "in a `task.request` of a `cis-1.1` peer only, this is taken as coming from `proxy@{peer}`"
        return From(AgentAddress(PROXY, peer.node_id), is_proxy=True)
    if isinstance(event, Unregistered) and event.node_id == own_node:
        # "`unregistered` with reason `timeout` goes to the owning node only": it is about an agent of ours,
        # and says nothing but what the peer knows of it.
        return ToldGone(event.agent)
    if _node(event) != peer.node_id:
        # "only a node may register its own agents"
        field = "node_id" if isinstance(event, AgentEvent) else "from_agent"
        return Forbidden(f"The {field} does not name the peer that sent this.")
    return From(event.agent if isinstance(event, AgentEvent) else event.from_agent)


def _is_from_proxy(event: AnyEvent, peer: Peer) -> bool:
    """ "its own proxy puts the target's address into `sender`, `from_agent` and `to_agent`\""""
    return (
        isinstance(event, TaskRequest)
        and peer.profile is PeerProfile.CIS_1_1
        and event.from_agent == event.to_agent
    )


def _node(event: AnyEvent) -> str:
    return event.node_id if isinstance(event, AgentEvent) else event.from_agent.node_id


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


NOT_THE_AGENT = Forbidden("The event was not sent by the agent's own user.")


def wrong_speaker(taken: Taken, user: str) -> Forbidden | None:
    """`user` is of the peer's server, which has been checked."""
    if localpart(user) == NODE_USER or isinstance(taken.sender, ToldGone):
        return None
    event = taken.event
    ghost = user_id(event.agent if isinstance(event, AgentEvent) else event.from_agent)
    return None if not isinstance(ghost, NoGhost) and ghost == user else NOT_THE_AGENT
