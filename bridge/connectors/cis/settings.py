"""The connector's settings: its node and its peers, from the configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from bridge.agents.address import AgentAddress
from bridge.config.agent_federation import AgentFederation, access
from bridge.connectors.cis.protocol.rooms import AgentRoom, BroadcastRoom, FederationRoom
from bridge.matrix.ghost import NODE_USER
from bridge.peers.peer import DEFAULT_NAMESPACE, Peer, PeerAccess
from federation.peers.limits import Rate

NAME: Final = "cis"
"""The connector's name."""
ACTIONS: Final = "io.cis"
"""All actions in the audit begin with it. An event that has no readable type has no more than this."""
LIVE_TYPE: Final = "cis"
"""The type of agent events in the live feed."""
HEALTH_PATH: Final = "/_cis/v1/health"
"""The path on which a published node reports its name and status."""

PEER_RATE: Final = Rate(200, 2_000)
AGENT_RATE: Final = Rate(50, 500)


@dataclass(frozen=True, slots=True)
class CisSettings:
    """The first namespace is the default one, for agents without a configured namespace. With `federate` off,
    the rooms are closed to all other nodes and nothing is exchanged with them. `has_rooms` is off behind a
    Matrix backend on which room ids cannot be chosen: then an `AgentRoom` of this node only states which
    peers may receive an event."""

    node_id: str
    peers: Mapping[str, PeerAccess] = field(default_factory=dict)
    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    federate: bool = True
    join_rule: Literal["public", "invite"] = "public"
    heartbeat_ms: int = 30_000
    # The least time between two status updates of one agent.
    status_pause_ms: int = 1_000
    # The first and the longest delay before another request to a peer that did not answer.
    retry_ms: int = 1_000
    longest_retry_ms: int = 300_000
    # Limits for single events over HTTP.
    peer_rate: Rate = PEER_RATE
    agent_rate: Rate = AGENT_RATE
    has_rooms: bool = True

    @property
    def main_namespace(self) -> str:
        return self.namespaces[0]

    @property
    def node_user(self) -> str:
        """The Matrix user of the node itself, in rooms and as the sender of single events."""
        return f"@{NODE_USER}:{self.node_id}"

    @property
    def node_address(self) -> AgentAddress:
        """The address from which the node itself sends."""
        return AgentAddress(NODE_USER, self.node_id)

    @property
    def broadcast_room(self) -> BroadcastRoom:
        return BroadcastRoom(self.node_id)

    def own_rooms(self) -> tuple[AgentRoom, ...]:
        return self.broadcast_room, *(FederationRoom(name, self.node_id) for name in self.namespaces)

    def rooms_of(self, peer: Peer) -> tuple[AgentRoom, ...]:
        """Return the peer's rooms that this node joins."""
        common = self.common_namespaces(peer)
        return BroadcastRoom(peer.node_id), *(FederationRoom(name, peer.node_id) for name in common)

    def common_namespaces(self, peer: Peer) -> tuple[str, ...]:
        """Return the namespaces that this node shares with the peer, in this node's order."""
        return tuple(name for name in self.namespaces if name in peer.namespaces)

    def announced_in(self, namespaces: Iterable[str]) -> tuple[AgentRoom, ...]:
        """Return the rooms in which an agent of these namespaces is announced: the broadcast room, or the
        rooms of its namespaces if it is not in the main one."""
        known = self.known_namespaces(namespaces)
        if self.main_namespace in known:
            return (self.broadcast_room,)
        return tuple(FederationRoom(name, self.node_id) for name in known)

    def known_namespaces(self, namespaces: Iterable[str]) -> tuple[str, ...]:
        """Return those of a local agent's namespaces that this node has; the main one if there is none."""
        wanted = set(namespaces)
        return tuple(name for name in self.namespaces if name in wanted) or (self.main_namespace,)

    def access(self, node_id: str) -> PeerAccess | None:
        """Return the access of a trusted peer; None for any other node, or with `federate` off."""
        known = self.peers.get(node_id)
        return known if known is not None and known.peer.trusted and self.federate else None

    def peer(self, node_id: str) -> Peer | None:
        """Return a configured peer, trusted or not."""
        known = self.peers.get(node_id)
        return None if known is None else known.peer

    def homeservers(self) -> tuple[Peer, ...]:
        """Return the trusted peers with which rooms are shared."""
        if not self.has_rooms:
            return ()
        return tuple(access.peer for access in self._trusted() if access.is_homeserver)

    def published(self) -> tuple[PeerAccess, ...]:
        """Return the trusted peers that receive single events over HTTP."""
        return tuple(access for access in self._trusted() if not access.is_homeserver)

    def published_or_refused(self) -> tuple[PeerAccess, ...]:
        """Return all configured peers that use single events, including untrusted ones."""
        return tuple(access for access in self.peers.values() if not access.is_homeserver)

    def may_use(self, peer: Peer, room: AgentRoom) -> bool:
        """Return whether the peer may receive the events of a room of this node."""
        return not isinstance(room, FederationRoom) or room.namespace in peer.namespaces

    def is_own(self, address: AgentAddress) -> bool:
        return address.node_id == self.node_id

    def _trusted(self) -> list[PeerAccess]:
        return [access for access in self.peers.values() if access.peer.trusted] if self.federate else []


BURST_SECONDS: Final = 10
"""The burst that a rate allows, in seconds of that rate."""


def cis_settings(server_name: str, federation: AgentFederation) -> CisSettings:
    return CisSettings(
        server_name,
        {peer.node_id: access(peer, federation.room.namespace) for peer in federation.peers},
        federation.namespaces,
        federation.enabled and federation.room.federate,
        federation.room.join_rule,
        heartbeat_ms=max(1, int(federation.heartbeat_interval_secs * 1000)),
        peer_rate=_rate(federation.limits.events_per_second_of_peer),
    )


def _rate(per_second: float) -> Rate:
    return Rate(per_second, max(1, int(BURST_SECONDS * per_second)))
