"""The way to a node: its rooms, or single events over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from bridge.address import AgentAddress
from bridge.connectors.cis import content
from bridge.connectors.cis.events import AnyEvent, Registered, Unregistered
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.rooms import AgentRoom, BroadcastRoom, FederationRoom, room_id
from bridge.connectors.cis.service.speech import NotSaid, Said, Speech
from bridge.connectors.cis.settings import CisSettings, PeerAccess
from bridge.matrix_side import MatrixSide
from bridge.task_request import TaskKey
from federation.errors import MatrixError


@dataclass(frozen=True, slots=True)
class Letter:
    """An event for one node. Under its `name` it is the same one when it is sent again. `deadline`: after it
    nobody wants it any more. `task`: the one that fails if the node will not take it. `ready` is what
    `Channels.make_ready` gave for it."""

    event: AnyEvent
    namespace: str
    speaker: AgentAddress
    name: str
    deadline: int
    task: TaskKey | None = None
    ready: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)


class Posts(Protocol):
    """To nodes that are in no rooms."""

    async def post(self, access: PeerAccess, letter: Letter) -> Said | NotSaid: ...


class Channels:
    def __init__(self, side: MatrixSide, settings: CisSettings, speech: Speech, published: Posts) -> None:
        self._side = side
        self._settings = settings
        self._speech = speech
        self._published = published

    async def send(self, access: PeerAccess, letter: Letter) -> Said | NotSaid:
        """Once it is said, it lies in a durable queue."""
        if not access.is_homeserver:
            return await self._published.post(access, letter)
        room = FederationRoom(letter.namespace, access.peer.node_id)
        return await self._speech.say(letter.event, room, letter.speaker, letter.name, letter.ready)

    def make_ready(
        self, access: PeerAccess, event: AnyEvent, namespace: str, speaker: AgentAddress
    ) -> Mapping[str, Any] | None:
        """What will perhaps be sent in a moment. None: there is nothing to be gained."""
        if not access.is_homeserver:
            return None
        return self._speech.make_ready(event, FederationRoom(namespace, access.peer.node_id), speaker)

    def only_namespace(self, peer: Peer) -> str | None:
        """The one in which any agent of the peer is spoken with. None: there is none, or more than one."""
        common = self._settings.common_namespaces(peer)
        return common[0] if len(common) == 1 else None

    async def namespace_of(self, peer: Peer, agent: AgentAddress) -> str | None:
        """The namespace in which an agent of the peer is spoken with: the first that it and we are in. None
        when we have none in common."""
        common = self._settings.common_namespaces(peer)
        if len(common) < 2 or not self._settings.peers[peer.node_id].is_homeserver:
            return next(iter(common), None)
        for namespace in common:
            if await self._is_registered(peer, namespace, agent):
                return namespace
        return common[0]

    async def _is_registered(self, peer: Peer, namespace: str, agent: AgentAddress) -> bool:
        is_main = namespace == self._settings.main_namespace
        room = BroadcastRoom(peer.node_id) if is_main else FederationRoom(namespace, peer.node_id)
        try:
            came = await self._said_at(room, Registered.TYPE, agent)
            went = await self._said_at(room, Unregistered.TYPE, agent)
        except MatrixError:
            return False
        return came is not None and (went is None or came > went)

    async def _said_at(self, room: AgentRoom, type_: str, agent: AgentAddress) -> int | None:
        """An agent that has left a namespace has both entries there: the newer one counts."""
        entry = await self._side.state_event(room_id(room), type_, agent.agent_id)
        event = None if entry is None else content.read(type_, dict(entry.content))
        return event.said_at if isinstance(event, Registered | Unregistered) else None
