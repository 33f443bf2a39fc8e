"""What the connector knows of its node and its peers, read from the configuration."""

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
"""Of the connector."""
HEALTH: Final = "/_cis/v1/health"
"""The path on which a node says its name."""

OF_PEER: Final = Rate(200, 2_000)
OF_AGENT: Final = Rate(50, 500)


@dataclass(frozen=True, slots=True)
class CisSettings:
    """The first namespace is the one that agents are in who say nothing of it. With `federate` off the rooms
    are closed to all other nodes, and nothing is exchanged with any. Without rooms, as a guest is who cannot
    name them, a room of ours is only a word for who may know what would be said there."""

    node_id: str
    peers: Mapping[str, PeerAccess] = field(default_factory=dict)
    namespaces: tuple[str, ...] = (DEFAULT_NAMESPACE,)
    federate: bool = True
    join_rule: Literal["public", "invite"] = "public"
    heartbeat_ms: int = 30_000
    # Of an agent that does something else all the time, only so often is told.
    status_pause_ms: int = 1_000
    # Until somebody is asked again who did not answer.
    retry_ms: int = 1_000
    longest_retry_ms: int = 300_000
    # Single events over HTTP, of one peer and of one agent.
    of_peer: Rate = OF_PEER
    of_agent: Rate = OF_AGENT
    has_rooms: bool = True

    @property
    def main_namespace(self) -> str:
        return self.namespaces[0]

    @property
    def node_user(self) -> str:
        """As federating nodes know it, and as it is called in single events."""
        return f"@{NODE_USER}:{self.node_id}"

    @property
    def node_address(self) -> AgentAddress:
        """As which the node itself speaks."""
        return AgentAddress(NODE_USER, self.node_id)

    @property
    def broadcast_room(self) -> BroadcastRoom:
        return BroadcastRoom(self.node_id)

    def own_rooms(self) -> tuple[AgentRoom, ...]:
        return self.broadcast_room, *(FederationRoom(one, self.node_id) for one in self.namespaces)

    def rooms_of(self, peer: Peer) -> tuple[AgentRoom, ...]:
        """Those of a peer that this node wants to be in."""
        common = self.common_namespaces(peer)
        return BroadcastRoom(peer.node_id), *(FederationRoom(one, peer.node_id) for one in common)

    def common_namespaces(self, peer: Peer) -> tuple[str, ...]:
        """In which there may be something to say between us; in our order."""
        return tuple(one for one in self.namespaces if one in peer.namespaces)

    def announced_in(self, namespaces: Iterable[str]) -> tuple[AgentRoom, ...]:
        """Where it is told what becomes of an agent in these namespaces: to all, unless it is in none but
        namespaces of some."""
        known = self.known_namespaces(namespaces)
        if self.main_namespace in known:
            return (self.broadcast_room,)
        return tuple(FederationRoom(one, self.node_id) for one in known)

    def known_namespaces(self, namespaces: Iterable[str]) -> tuple[str, ...]:
        """Those of an agent of this node. Who is in none that there is, is in the main one."""
        said = set(namespaces)
        return tuple(one for one in self.namespaces if one in said) or (self.main_namespace,)

    def access(self, node_id: str) -> PeerAccess | None:
        """Of a node with which agents are exchanged; None for every other one."""
        known = self.peers.get(node_id)
        return known if known is not None and known.peer.trusted and self.federate else None

    def peer(self, node_id: str) -> Peer | None:
        """Of a node that the configuration names, trusted or not."""
        known = self.peers.get(node_id)
        return None if known is None else known.peer

    def homeservers(self) -> tuple[Peer, ...]:
        """The peers with which rooms are shared."""
        return tuple(one.peer for one in self._trusted() if one.is_homeserver) if self.has_rooms else ()

    def published(self) -> tuple[PeerAccess, ...]:
        """The peers that take single events."""
        return tuple(one for one in self._trusted() if not one.is_homeserver)

    def takers_of_events(self) -> tuple[PeerAccess, ...]:
        """The same, and those that are named in order to be refused."""
        return tuple(one for one in self.peers.values() if not one.is_homeserver)

    def may_use(self, peer: Peer, room: AgentRoom) -> bool:
        """Whether what is said in a room of ours is for this peer too."""
        return not isinstance(room, FederationRoom) or room.namespace in peer.namespaces

    def is_own(self, address: AgentAddress) -> bool:
        return address.node_id == self.node_id

    def _trusted(self) -> list[PeerAccess]:
        return [one for one in self.peers.values() if one.peer.trusted] if self.federate else []


BURST: Final = 10
"""For so many seconds' worth a sender may have been silent and send at once."""


def cis_settings(server_name: str, federation: AgentFederation) -> CisSettings:
    return CisSettings(
        server_name,
        {peer.node_id: access(peer, federation.room.namespace) for peer in federation.peers},
        federation.namespaces,
        federation.enabled and federation.room.federate,
        federation.room.join_rule,
        heartbeat_ms=max(1, int(federation.heartbeat_interval_secs * 1000)),
        of_peer=_rate(federation.limits.events_per_second_of_peer),
    )


def _rate(per_second: float) -> Rate:
    return Rate(per_second, max(1, int(BURST * per_second)))
