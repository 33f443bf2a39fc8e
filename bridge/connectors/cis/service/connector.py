"""The connector for CIS nodes: all its parts, put together once.

Of all processes of a node one leads: the one that reads the rooms. All of them bring and answer tasks, hear
heartbeats, and take what published nodes send.
"""

import asyncio
import secrets
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web
from nacl.signing import SigningKey

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import NodeHeartbeat
from bridge.connectors.cis.effects import Missed
from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.http.endpoints import CisEndpoints
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.http.publishing import Publishing, new_event_id
from bridge.connectors.cis.http.receiving import Receiving
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.events import Message, Unregistered
from bridge.connectors.cis.protocol.json_values import problem_of
from bridge.connectors.cis.protocol.rooms import parse_room_id
from bridge.connectors.cis.service import inbound as incoming
from bridge.connectors.cis.service.discovery import Learning
from bridge.connectors.cis.service.dispatch import Listener, Taking
from bridge.connectors.cis.service.heartbeats import HeardBeats
from bridge.connectors.cis.service.leader import Followers, Lead, leading
from bridge.connectors.cis.service.long_texts import WholeTexts
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.own_rooms import OwnRooms
from bridge.connectors.cis.service.peer_trust import Trusting
from bridge.connectors.cis.service.registrations import NamespacesOf
from bridge.connectors.cis.service.rejections import Refusing
from bridge.connectors.cis.service.sender import Channels, Letter, NotSaid, Said, Speech
from bridge.connectors.cis.service.tasks import TaskDelivery, TaskReply
from bridge.connectors.cis.settings import NAME, CisSettings, cis_settings
from bridge.connectors.interface import Connector, NodeParts, PortalRoom
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.tasks.ports import Delivery
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from federation.events.room_event import RoomEvent
from federation.matrix.capabilities import BackendCapability
from federation.stream.event_stream import Subscription
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.errors import LocalError
from storage.rooms.stream import ReaderReplaced

AGAIN: Final = 0.5
"""Seconds until it is tried again to lead."""
LEARNED_AGAIN_MS: Final = 10_000
"""The agents of a node are looked up no more often than this, whatever it says."""
TIMEOUT: Final = 2.0
"""Seconds that the last words of a node may take."""
MESSAGE_WORTH_MS: Final = 300_000


PORTAL: Final = "nodes"
"""The kind of its rooms. They are not removed as portals."""

FollowPeers = Callable[[Callable[[Collection[str]], None]], Callable[[], None]]
"""Be told the ids of peers that have changed, once `CisSettings.peers` says so; gives what ends it."""


def peers_stay(listener: Callable[[Collection[str]], None]) -> Callable[[], None]:
    """They are those of the configuration, for as long as the node runs."""
    return lambda: None


def connect(parts: NodeParts) -> Connector:
    config = parts.config
    # The peers of the configuration, and those that operators have added since.
    settings = replace(cis_settings(config.server_name, config.agent_federation), peers=parts.peers.peers)
    return CisConnector(
        CisParts(
            side=parts.side,
            database=parts.database,
            routes=parts.routes,
            ghosts=parts.ghosts,
            settings=settings,
            names=parts.names,
            observer=CisObserver(
                CisMetrics(parts.metrics), parts.audit, parts.feed, parts.report, now_ms=parts.now_ms
            ),
            namespaces_of=parts.namespaces_of,
            key=parts.key,
            version=parts.version,
            now_ms=parts.now_ms,
            follow_peers=parts.peers.subscribe,
            is_spoken_with=parts.admits,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CisParts:
    """What the connector is given. On a side that cannot name its rooms there are none for agents, and other
    nodes get single events. `namespaces_of` says of an agent of this node where it is; `key` is the node's
    own; `is_spoken_with`: whether this node federates with a server, whatever for."""

    side: MatrixBackend
    database: Database
    routes: RoutingTable
    ghosts: Ghosts
    settings: CisSettings
    names: GhostNames
    observer: CisObserver
    namespaces_of: NamespacesOf
    key: Callable[[], SigningKey]
    version: str
    now_ms: Callable[[], int]
    follow_peers: FollowPeers = peers_stay
    is_spoken_with: Callable[[str], bool] = lambda _: True


class CisConnector(Connector):
    """The agents of other nodes, over rooms or single events."""

    name = NAME

    def __init__(self, parts: CisParts) -> None:
        has_rooms = BackendCapability.ROOM_IDS in parts.side.capabilities
        self._parts = parts = replace(parts, settings=replace(parts.settings, has_rooms=has_rooms))
        settings, observer, now_ms = parts.settings, parts.observer, parts.now_ms
        self._own_rooms = OwnRooms(parts.side, settings, observer, is_spoken_with=parts.is_spoken_with)
        self._speech = Speech(parts.side, settings, observer, parts.ghosts)
        self._client = EventClient(f"Palaver/{parts.version}")
        self._outbox = PublishedOutbox(
            parts.database, self._client, settings, observer, refused=self._refused, now_ms=now_ms
        )
        self._publishing = Publishing(
            parts.side,
            parts.database,
            parts.routes,
            settings,
            self._client,
            self._outbox,
            observer,
            names=parts.names,
            key=parts.key,
            rooms_of=lambda agent: settings.announced_in(parts.namespaces_of(agent)),
            now_ms=now_ms,
        )
        self._channels = Channels(parts.side, settings, self._speech, self._publishing)
        self._refusing = Refusing(settings, self._channels, observer, now_ms=now_ms)
        self._learning = Learning(parts.side, parts.routes, settings, observer)
        self._heard = HeardBeats(
            parts.side, parts.routes, settings, observer, unknown=self._unknown, met=self._met
        )
        self.delivery = TaskDelivery(settings, self._channels, now_ms=now_ms)
        self.reply = TaskReply(settings, self._channels, observer, now_ms=now_ms)
        self._taking = Taking(
            parts.database,
            parts.routes,
            settings,
            self._refusing,
            observer,
            namespaces_of=parts.namespaces_of,
        )
        self._taking.missed = self._missed
        self._taking.unknown = self._unknown
        self._taking.registered = self._registered
        self._trusting = Trusting(
            parts.database,
            parts.routes,
            settings,
            self._learning,
            self._publishing,
            self._outbox,
            observer,
            rooms_follow=self._own_rooms.follow,
        )
        self._receiving = Receiving(
            parts.database, parts.routes, settings, self._taking, observer, now_ms=now_ms
        )
        self._lead: Lead | None = None
        self._learned: dict[str, int] = {}
        self._background = BackgroundTasks()
        self._reading: asyncio.Task[None] | None = None
        self._is_ending = asyncio.Event()
        self._end: Callable[[], None] = lambda: None
        self._tasks: TaskService

    # -- what it can do --

    def prepared(self, delivery: Delivery) -> Delivery:
        """With the whole of the texts that were too long for an event."""
        return WholeTexts(self._parts.side, delivery)

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks
        self._taking.use_task_service(tasks)
        self._trusting.use_task_service(tasks)

    def has_puppet(self, address: AgentAddress) -> bool:
        access = self._parts.settings.peers.get(address.node_id)
        return access is not None and not access.is_homeserver

    def owns_room(self, room_id: str) -> bool:
        return parse_room_id(room_id) is not None

    async def portal(self, room_id: str) -> PortalRoom | None:
        if not self.owns_room(room_id):
            return None
        refusal = LocalError(
            f"{room_id} is a room in which nodes exchange agents, and no portal.",
            "`palaver rooms leave` lets this node leave it all the same.",
        )
        return PortalRoom(PORTAL, refusal=refusal)

    def routes(self) -> list[web.RouteDef]:
        return CisEndpoints(self._parts.settings, self._receiving, self._parts.version).routes()

    async def start(self) -> None:
        """Peers are joined when they are there. `use_task_service` comes first."""
        self._end = self._parts.follow_peers(self._peers_changed)
        await self._parts.ghosts.appear(self._parts.names.node_user)
        await self._own_rooms.make()
        await self._trusting.begin()
        self._refusing.start()
        self._publishing.start()
        self._heard.start()
        self._background.supervise("rooms of agents", self._lead_for_ever)

    async def stop(self) -> None:
        """Nothing more is read; what is still to be said is."""
        self._is_ending.set()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def close(self) -> None:
        self._end()
        await self.stop()
        if self._lead is not None:
            # That agents go is worth saying.
            await self._lead.announcing.settled(TIMEOUT)
        await self._background.close()
        await self._heard.close()
        await self._publishing.close()
        await self._refusing.close()
        await self._speech.close()
        await self._client.close()

    async def announce_lost(self, lost: Sequence[Agent]) -> None:
        """An agent that its node still has is told of to that node only. One of this node is unregistered
        like any other; one whose node is silent, by each for itself."""
        for agent in lost:
            node = self._parts.routes.table.node(agent.node_id)
            access = self._parts.settings.access(agent.node_id)
            if access is None or node is None or node.silent_since is not None:
                continue
            gone_at = agent.gone_at or self._parts.now_ms()
            event = Unregistered(
                agent_id=agent.agent_id,
                node_id=agent.node_id,
                reason=agent.gone_reason,
                timestamp=timestamps.of(gone_at),
            )
            namespace = await self._channels.namespace_of(access.peer, agent.address)
            if namespace is not None:
                me = self._parts.settings.node_address
                letter = Letter(
                    event, namespace, me, f"lost {agent.address} {gone_at}", gone_at + MESSAGE_WORTH_MS
                )
                await self._channels.send(access, letter)

    # -- messages between agents --

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of messages for agents of this node, and for all; gives what ends it."""
        return self._taking.subscribe(listener)

    async def send_message(
        self, from_agent: AgentAddress, to_agent: AgentAddress | None, message_type: str, payload: Any
    ) -> Said | NotSaid:
        """From an agent of this node to one of another, or to all."""
        problem = problem_of({"payload": payload}, 96)
        if problem is not None:
            return NotSaid(f"{problem[0]} {problem[1]}.", is_final=True)
        now_ms, settings = self._parts.now_ms(), self._parts.settings
        event = Message(
            message_id=f"msg-{secrets.token_hex(16)}",
            from_agent=from_agent,
            to_agent=to_agent,
            message_type=message_type,
            payload=payload,
            timestamp=timestamps.of(now_ms),
        )
        letter = Letter(
            event, settings.main_namespace, from_agent, event.message_id, now_ms + MESSAGE_WORTH_MS
        )
        if to_agent is None:
            said: Said | NotSaid = Said(new_event_id())
            if settings.has_rooms:
                said = await self._speech.say(event, settings.broadcast_room, from_agent, event.message_id)
            for peer in settings.published():
                await self._publishing.post(peer, letter)
            return said
        access = settings.access(to_agent.node_id)
        if access is None:
            return NotSaid(f"This node does not exchange agents with {to_agent.node_id}.", is_final=True)
        namespace = await self._channels.namespace_of(access.peer, to_agent)
        if namespace is None:
            return NotSaid(f"There is no namespace in common with {to_agent.node_id}.", is_final=True)
        return await self._channels.send(access, replace(letter, namespace=namespace))

    # -- what happens --

    def _peers_changed(self, node_ids: Collection[str]) -> None:
        for node_id in node_ids:
            self._start(self._trusting.follow(node_id))
            if self._lead is not None:
                self._lead.follow(node_id)

    def _missed(self, missed: Missed) -> None:
        if self._lead is not None:
            self._start(self._lead.announcing.say_again(missed.agent))

    def _registered(self, node_id: str) -> None:
        self._publishing.registered(node_id)
        if self._lead is not None:
            self._lead.contacting.met(node_id)

    def _unknown(self, node_id: str, agent_ids: Sequence[str]) -> None:
        """It may be that the registration is still on its way, and it may be that it was missed."""
        access, now_ms = self._parts.settings.access(node_id), self._parts.now_ms()
        if access is None or not access.is_homeserver:
            return
        if now_ms >= self._learned.get(node_id, 0) + LEARNED_AGAIN_MS:
            self._learned[node_id] = now_ms
            self._start(self._learning.learn(access.peer, agent_ids))

    def _met(self, beat: NodeHeartbeat) -> None:
        if self._lead is not None:
            self._lead.contacting.met(beat.node_id)
        access = self._parts.settings.access(beat.node_id)
        if beat.statuses is None and access is not None:
            # It does not say for whom it speaks; its rooms do.
            self._start(self._learning.learn(access.peer, as_of=beat.sent_at))

    async def _refused(self, key: TaskKey, reason: str) -> None:
        await self._tasks.fail_unreachable(key, reason)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.spawn("what a peer has said", self._watched(work))

    async def _watched(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionLost:
            pass  # what is missing is noticed again
        except Exception as error:
            self._parts.observer.problem("Something that a peer has said was not followed up.", error)

    # -- leading --

    async def _lead_for_ever(self) -> None:
        while True:
            try:
                async with (
                    self._parts.side.subscription(NAME, wanted=self._concerns) as subscription,
                    leading(self._followers()) as lead,
                ):
                    self._lead = lead
                    await self._read(lead, subscription)
            except (ReaderReplaced, ConnectionLost):
                pass  # another process reads, or nobody can
            except Exception as error:
                self._parts.observer.problem("The rooms of agents could not be read.", error)
            finally:
                self._lead = None
            await asyncio.sleep(AGAIN)

    def _concerns(self, event: RoomEvent) -> bool:
        return incoming.concerns(event, self._parts.settings)

    async def _read(self, lead: Lead, subscription: Subscription) -> None:
        """Until something is wrong; or until nothing more is to be read, and then for ever."""
        if not self._is_ending.is_set():
            self._reading = self._background.spawn(
                "reading of rooms of agents", lead.incoming.read(subscription), reports=False
            )
            try:
                await asyncio.wait({self._reading})
                if not self._reading.cancelled():
                    self._reading.result()
            finally:
                self._reading.cancel()
        await asyncio.Event().wait()

    def _followers(self) -> Followers:
        parts = self._parts
        return Followers(
            side=parts.side,
            routes=parts.routes,
            settings=parts.settings,
            names=parts.names,
            speech=self._speech,
            taking=self._taking,
            learning=self._learning,
            publishing=self._publishing,
            outbox=self._outbox,
            observer=parts.observer,
            namespaces_of=parts.namespaces_of,
            now_ms=parts.now_ms,
        )
