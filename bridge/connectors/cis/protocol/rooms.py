"""The rooms of agent federation 1.0.0, "Room structure". Their ids are prescribed, which room version 11
allows.

A namespace is part of room ids and aliases, so it only has characters that need no escaping in either.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from bridge.agents.address import node_id_problem
from bridge.connectors.cis.protocol.events import AnyEvent, Message, TaskRequest, TaskResponse
from bridge.connectors.cis.protocol.refusals import Forbidden
from bridge.peers.peer import Peer
from federation.matrix.identifiers import MAX_BYTES, has_valid_length

ROOM_VERSION: Final = "11"
"""Version 12 derives a room's id from its create event."""

_FEDERATION: Final = "agent-federation-"
_BROADCAST: Final = "agent-broadcast"
_MAX_CACHED: Final = 1000
_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FederationRoom:
    """`!agent-federation-{ns}:{node}`: events for the agents of one node in a namespace."""

    namespace: str
    node_id: str

    @property
    def name(self) -> str:
        return f"{_FEDERATION}{self.namespace}:{self.node_id}"


@dataclass(frozen=True, slots=True)
class BroadcastRoom:
    """`!agent-broadcast:{node}`: events from one node to all nodes."""

    node_id: str

    @property
    def name(self) -> str:
        return f"{_BROADCAST}:{self.node_id}"


AgentRoom = FederationRoom | BroadcastRoom


def room_id(room: AgentRoom) -> str:
    return f"!{room.name}"


@lru_cache(maxsize=_MAX_CACHED)  # called for every event of the stream
def parse_room_id(text: str) -> AgentRoom | None:
    """Return the room with this id; None if it is not a room of agents."""
    return _parse(text[1:]) if text.startswith("!") else None


def wrong_namespace(namespace: str, node_id: str) -> str | None:
    """Return why a node cannot have this namespace, as a sentence for the operator; None if it can."""
    if _NAMESPACE.fullmatch(namespace) is None:
        return "A namespace begins with a letter or a digit and has at most 64 of a-z, 0-9, '.', '_' and '-'."
    if not has_valid_length(room_id(FederationRoom(namespace, node_id))):
        return f"The id of this namespace's room would be longer than {MAX_BYTES} bytes."
    return None


def target_room(event: AnyEvent, own_node: str, namespace: str) -> AgentRoom:
    """Return the room for an event of this node: "P2P events go into the target node's federation room,
    broadcasts into the sender's broadcast room"."""
    target = event.to_agent if isinstance(event, TaskRequest | TaskResponse | Message) else None
    return BroadcastRoom(own_node) if target is None else FederationRoom(namespace, target.node_id)


def check_room(text: str, peer: Peer, own_node: str) -> AgentRoom | Forbidden:
    """Return the room of a peer's event, which must belong to the peer or to this node. A published node
    sends all its events in the room of its own namespace."""
    room = parse_room_id(text)
    if room is None:
        return Forbidden("The room is not a room of agents.")
    if isinstance(room, BroadcastRoom):
        # Only this node sends in its own broadcast room.
        if not peer.is_named_by(room.node_id):
            return Forbidden("A node may only broadcast in its own room.")
        return room
    if room.node_id != own_node and not peer.is_named_by(room.node_id):
        return Forbidden("The room belongs to another node.")
    if room.namespace not in peer.namespaces:
        # "a peer lists the namespaces it may use; others are refused"
        return Forbidden("The peer may not use this namespace.")
    return room


def _parse(name: str) -> AgentRoom | None:
    kind, _, node_id = name.partition(":")
    if node_id_problem(node_id) is not None:
        return None
    if kind == _BROADCAST:
        return BroadcastRoom(node_id)
    namespace = kind.removeprefix(_FEDERATION)
    if namespace == kind or _NAMESPACE.fullmatch(namespace) is None:
        return None
    return FederationRoom(namespace, node_id)
