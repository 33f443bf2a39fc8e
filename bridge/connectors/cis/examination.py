"""Decides whether an event of a peer is valid: its room, its content and its sender.

An event comes from the authenticated peer and from no other node: "`origin`, the sender's domain, that
header, `node_id` and the node of `from_agent` must all name that peer." How the peer was authenticated
(X-Matrix, mTLS, an allowed network) does not matter here.

A homeserver may have people besides agents. Its signature proves which user sent an event, but not that this
user is the agent: an agent's events must be sent by its own user, `@worker-1:kitchen.local`, or by its
node's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol import content, published
from bridge.connectors.cis.protocol.content import UnknownType
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.events import AgentEvent, AnyEvent, TaskRequest, Unregistered
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.protocol.rooms import AgentRoom, check_room
from bridge.matrix.ghost import NODE_USER, NoGhost, user_id
from bridge.peers.peer import Peer, PeerProfile
from federation.matrix.identifiers import domain, localpart

PROXY: Final = "proxy"


@dataclass(frozen=True, slots=True)
class AgentSender:
    """The agent that sent the event. `is_proxy`: the peer's proxy sent it and gave the target's address as
    its own; the answer repeats the addresses as they were given."""

    agent: AgentAddress
    is_proxy: bool = False


@dataclass(frozen=True, slots=True)
class LostAgentNotice:
    """The peer reports that an agent of this node has timed out. If the agent is online, it is announced
    again."""

    agent: AgentAddress


Sender = AgentSender | LostAgentNotice


SENDER: Final = "sender"
ORIGIN: Final = "origin"
HEADER: Final = "x-origin-server header"


@dataclass(frozen=True, slots=True)
class Claim:
    """The server that a part of an event gives as its origin; None if the part is missing. `source` is one of
    the three names above."""

    source: str
    server: str | None


def check_claims(claims: Iterable[Claim], peer: Peer, *, exempt: Claim | None = None) -> Forbidden | None:
    """Return a refusal if a claim other than `exempt` names another server than the peer."""
    for claim in claims:
        if claim.server is not None and not peer.is_named_by(claim.server) and claim != exempt:
            return Forbidden(f"The {claim.source} does not name the peer that sent this.")
    return None


def sender_of(event: AnyEvent, claims: Iterable[Claim], peer: Peer, own_node: str) -> Sender | Forbidden:
    is_proxy = _is_from_proxy(event, peer)
    refusal = check_claims(claims, peer, exempt=Claim(SENDER, _node(event)) if is_proxy else None)
    if refusal is not None:
        return refusal
    if is_proxy:
        # "in a `task.request` of a `cis-1.1` peer only, this is taken as coming from `proxy@{peer}`"
        return AgentSender(AgentAddress(PROXY, peer.node_id), is_proxy=True)
    if isinstance(event, Unregistered) and event.node_id == own_node:
        # "`unregistered` with reason `timeout` goes to the owning node only": it reports on an agent of this
        # node, and only what the peer knows of it.
        return LostAgentNotice(event.agent)
    if _node(event) != peer.node_id:
        # "only a node may register its own agents"
        field = "node_id" if isinstance(event, AgentEvent) else "from_agent"
        return Forbidden(f"The {field} does not name the peer that sent this.")
    return AgentSender(event.agent if isinstance(event, AgentEvent) else event.from_agent)


def _is_from_proxy(event: AnyEvent, peer: Peer) -> bool:
    """ "its own proxy puts the target's address into `sender`, `from_agent` and `to_agent`\""""
    return isinstance(event, TaskRequest) and peer.profile is PeerProfile.CIS_1_1 and event.from_agent == event.to_agent


def _node(event: AnyEvent) -> str:
    return event.node_id if isinstance(event, AgentEvent) else event.from_agent.node_id


UNKNOWN_PEER: Final = Forbidden("This server is not configured as a peer of this node.")
UNTRUSTED_PEER: Final = Forbidden("This node does not trust the peer.")


@dataclass(frozen=True, slots=True)
class ValidEvent:
    """An event that may be acted on, with its sender and its room."""

    event: AnyEvent
    sender: Sender
    room: AgentRoom


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of an unknown type: "stored in the room, not acted on, counted"."""

    type: str
    room: AgentRoom


ExaminationResult = ValidEvent | UnknownEvent | InvalidPayload | Forbidden


def examine_envelope(
    envelope: Envelope, peer: Peer | None, own_node: str, *, header: str | None = None
) -> ExaminationResult:
    """Examine an event that a published node sent over HTTP. `peer` is the authenticated peer, None if the
    connection belongs to no peer; `header` is the value of `x-origin-server`."""
    if peer is not None and peer.trusted:
        bad_signature = published.signature_refusal(envelope, peer)
        if bad_signature is not None:
            return bad_signature
    claims = (Claim(ORIGIN, envelope.origin), Claim(SENDER, envelope.sender_domain), Claim(HEADER, header))
    return _examine(envelope.type, envelope.content, envelope.room_id, claims, peer, own_node)


def examine_pdu(
    type_: str, event_content: Mapping[str, Any], room_id: str, sender: str, peer: Peer | None, own_node: str
) -> ExaminationResult:
    """Examine an event of a room. The homeserver has checked its signature; `peer` is its sender's server."""
    return _examine(type_, event_content, room_id, (Claim(SENDER, domain(sender)),), peer, own_node)


def _examine(
    type_: str,
    event_content: Mapping[str, Any],
    room_id: str,
    claims: Sequence[Claim],
    peer: Peer | None,
    own_node: str,
) -> ExaminationResult:
    # "unknown peers are refused (403, same shape); a listed untrusted peer too"
    if peer is None:
        return UNKNOWN_PEER
    if not peer.trusted:
        return UNTRUSTED_PEER
    room = check_room(room_id, peer, own_node)
    if isinstance(room, Forbidden):
        return room
    event = content.read(type_, event_content)
    if isinstance(event, InvalidPayload):
        return event
    if isinstance(event, UnknownType):
        return check_claims(claims, peer) or UnknownEvent(type_, room)
    sender = sender_of(event, claims, peer, own_node)
    return sender if isinstance(sender, Forbidden) else ValidEvent(event, sender, room)


NOT_THE_AGENT = Forbidden("The event was not sent by the agent's own user.")


def check_user(valid: ValidEvent, user: str) -> Forbidden | None:
    """Return a refusal if `user`, a user of the peer's server, may not send this agent's events."""
    if localpart(user) == NODE_USER or isinstance(valid.sender, LostAgentNotice):
        return None
    event = valid.event
    ghost = user_id(event.agent if isinstance(event, AgentEvent) else event.from_agent)
    return None if not isinstance(ghost, NoGhost) and ghost == user else NOT_THE_AGENT
