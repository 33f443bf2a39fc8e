"""Who an event comes from: the authenticated peer, and nobody else.

"`origin`, the sender's domain, that header, `node_id` and the node of `from_agent` must all name that peer."
How the peer was authenticated (X-Matrix, mTLS, an allowed network) is not for here to know.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bridge.address import AgentAddress
from bridge.connectors.cis.events import AgentEvent, AnyEvent, TaskRequest, Unregistered
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.profile import PeerProfile
from bridge.connectors.cis.refusals import Forbidden

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
