"""The rooms of agent federation 1.0.0, "Room structure": exactly so named, which room version 11 allows.

Namespaces are part of ids and of aliases; they have the letters that need no thought in either.
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
_MOST_REMEMBERED: Final = 1000
_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FederationRoom:
    """`!agent-federation-{ns}:{node}`: the main communication of agents, and what is for an agent of this
    node."""

    namespace: str
    node_id: str

    @property
    def name(self) -> str:
        return f"{_FEDERATION}{self.namespace}:{self.node_id}"


@dataclass(frozen=True, slots=True)
class BroadcastRoom:
    """`!agent-broadcast:{node}`: what this node says to all."""

    node_id: str

    @property
    def name(self) -> str:
        return f"{_BROADCAST}:{self.node_id}"


AgentRoom = FederationRoom | BroadcastRoom


def room_id(room: AgentRoom) -> str:
    return f"!{room.name}"


def alias(room: AgentRoom) -> str:
    return f"#{room.name}"


@lru_cache(maxsize=_MOST_REMEMBERED)  # every event of a stream is looked at by where it was said
def parse_room_id(text: str) -> AgentRoom | None:
    """None for every other room."""
    return _parse(text[1:]) if text.startswith("!") else None


def parse_alias(text: str) -> AgentRoom | None:
    return _parse(text[1:]) if text.startswith("#") else None


def wrong_namespace(namespace: str, node_id: str) -> str | None:
    """Why there is no such namespace on this node: a sentence for whoever configures it. None if all is
    well."""
    if _NAMESPACE.fullmatch(namespace) is None:
        return "A namespace begins with a letter or a digit and has at most 64 of a-z, 0-9, '.', '_' and '-'."
    if not has_valid_length(room_id(FederationRoom(namespace, node_id))):
        return f"The id of this namespace's room would have more than {MAX_BYTES} bytes."
    return None


def room_for(event: AnyEvent, own_node: str, namespace: str) -> AgentRoom:
    """Where an event of ours goes: "P2P events go into the target node's federation room, broadcasts into the
    sender's broadcast room"."""
    target = event.to_agent if isinstance(event, TaskRequest | TaskResponse | Message) else None
    return BroadcastRoom(own_node) if target is None else FederationRoom(namespace, target.node_id)


def room_of(text: str, peer: Peer, own_node: str) -> AgentRoom | Forbidden:
    """The room in which an event of a peer stands, if that is one of its own or one of ours. A published node
    sends everything in the room of its own namespace."""
    room = parse_room_id(text)
    if room is None:
        return Forbidden("This is no room of agents.")
    if isinstance(room, BroadcastRoom):
        # What we say to all, we say ourselves.
        if not peer.is_named_by(room.node_id):
            return Forbidden("A node broadcasts in its own room.")
        return room
    if room.node_id != own_node and not peer.is_named_by(room.node_id):
        return Forbidden("This room belongs to another node.")
    if room.namespace not in peer.namespaces:
        # "a peer lists the namespaces it may use; others are refused"
        return Forbidden("This namespace is not open to the peer.")
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
