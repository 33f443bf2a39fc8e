"""The connector for CIS nodes.

One process of a node is the leader: the one that reads the rooms. All processes deliver and answer tasks, and
receive heartbeats and the events of published nodes.
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
from bridge.connectors.cis.effects import ReannounceAgent
from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.http.endpoints import CisEndpoints
from bridge.connectors.cis.http.messenger import PublishedMessenger, new_event_id
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.http.receiver import EventReceiver
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.events import Message, Unregistered
from bridge.connectors.cis.protocol.json_values import problem_of
from bridge.connectors.cis.protocol.rooms import parse_room_id
from bridge.connectors.cis.service import room_reader
from bridge.connectors.cis.service.announcer import NamespacesOf
from bridge.connectors.cis.service.discovery import AgentDiscovery
from bridge.connectors.cis.service.dispatch import EffectDispatcher, Listener
from bridge.connectors.cis.service.heartbeats import HeartbeatReceiver
from bridge.connectors.cis.service.leader import LeaderServices, SharedServices, run_leader_services
from bridge.connectors.cis.service.long_texts import TextRestoringDelivery
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.own_rooms import OwnRooms
from bridge.connectors.cis.service.peer_trust import PeerTrust
from bridge.connectors.cis.service.rejections import TaskRejections
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, PeerMessenger, RoomSender, Sent
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

LEADER_RETRY: Final = 0.5
"""Seconds between attempts to become the leader."""
DISCOVERY_INTERVAL_MS: Final = 10_000
"""The least time between two discoveries of the same node's agents."""
FLUSH_TIMEOUT: Final = 2.0
"""Timeout in seconds for the last announcements of a node that stops."""
MESSAGE_VALIDITY_MS: Final = 300_000


PORTAL: Final = "nodes"
"""The kind of the connector's rooms. They cannot be removed as portals."""

FollowPeers = Callable[[Callable[[Collection[str]], None]], Callable[[], None]]
"""Subscribes a listener to the ids of changed peers, called after `CisSettings.peers` has changed. Returns a
function that unsubscribes it."""


def fixed_peers(listener: Callable[[Collection[str]], None]) -> Callable[[], None]:
    """The peers of the configuration, which do not change while the node runs."""
    return lambda: None


def connect(parts: NodeParts) -> Connector:
    config = parts.config
    # The peers of the configuration, and those that operators have added.
    settings = replace(cis_settings(config.server_name, config.agent_federation), peers=parts.peers.peers)
    return CisConnector(
        CisParts(
            backend=parts.backend,
            database=parts.database,
            routes=parts.routes,
            ghosts=parts.ghosts,
            settings=settings,
            names=parts.names,
            observer=CisObserver(CisMetrics(parts.metrics), parts.audit, parts.feed, parts.report, now_ms=parts.now_ms),
            namespaces_of=parts.namespaces_of,
            key=parts.key,
            version=parts.version,
            now_ms=parts.now_ms,
            follow_peers=parts.peers.subscribe,
            admits=parts.admits,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CisParts:
    """What the connector needs from its node. If room ids cannot be chosen on `backend`, there are no rooms
    of agents, and other nodes are sent single events. `namespaces_of` returns the namespaces of a local
    agent; `key` returns the node's signing key; `admits` returns whether this node federates with a
    server."""

    backend: MatrixBackend
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
    follow_peers: FollowPeers = fixed_peers
    admits: Callable[[str], bool] = lambda _: True


class CisConnector(Connector):
    """Connects this node's agents with those of other nodes, through rooms or single events."""

    name = NAME

    def __init__(self, parts: CisParts) -> None:
        has_rooms = BackendCapability.ROOM_IDS in parts.backend.capabilities
        self._parts = parts = replace(parts, settings=replace(parts.settings, has_rooms=has_rooms))
        settings, observer, now_ms = parts.settings, parts.observer, parts.now_ms
        self._own_rooms = OwnRooms(parts.backend, settings, observer, admits=parts.admits)
        self._room_sender = RoomSender(parts.backend, settings, observer, parts.ghosts)
        self._client = EventClient(f"Palaver/{parts.version}")
        self._outbox = PublishedOutbox(
            parts.database, self._client, settings, observer, undeliverable=self._undeliverable, now_ms=now_ms
        )
        self._published = PublishedMessenger(
            parts.backend,
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
        self._messenger = PeerMessenger(parts.backend, settings, self._room_sender, self._published)
        self._rejections = TaskRejections(settings, self._messenger, observer, now_ms=now_ms)
        self._discovery = AgentDiscovery(parts.backend, parts.routes, settings, observer)
        self._heartbeats = HeartbeatReceiver(
            parts.backend, parts.routes, settings, observer, on_unknown=self._unknown, on_returned=self._returned
        )
        self.delivery = TaskDelivery(settings, self._messenger, now_ms=now_ms)
        self.reply = TaskReply(settings, self._messenger, observer, now_ms=now_ms)
        self._dispatcher = EffectDispatcher(
            parts.database, parts.routes, settings, self._rejections, observer, namespaces_of=parts.namespaces_of
        )
        self._dispatcher.on_missed = self._missed
        self._dispatcher.on_unknown = self._unknown
        self._dispatcher.on_registered = self._registered
        self._trust = PeerTrust(
            parts.database,
            parts.routes,
            settings,
            self._discovery,
            self._published,
            self._outbox,
            observer,
            update_rooms=self._own_rooms.peer_changed,
        )
        self._receiver = EventReceiver(
            parts.database, parts.routes, settings, self._dispatcher, observer, now_ms=now_ms
        )
        self._leader: LeaderServices | None = None
        self._discovered_at: dict[str, int] = {}
        self._background = BackgroundTasks()
        self._reading: asyncio.Task[None] | None = None
        self._is_stopping = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._tasks: TaskService

    # -- capabilities --

    def wrap_delivery(self, delivery: Delivery) -> Delivery:
        """Restore the full texts that were too long for an event before a task is delivered."""
        return TextRestoringDelivery(self._parts.backend, delivery)

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks
        self._dispatcher.use_task_service(tasks)
        self._trust.use_task_service(tasks)

    def has_local_ghost(self, address: AgentAddress) -> bool:
        access = self._parts.settings.peers.get(address.node_id)
        return access is not None and not access.is_homeserver

    def owns_room(self, room_id: str) -> bool:
        return parse_room_id(room_id) is not None

    async def portal(self, room_id: str) -> PortalRoom | None:
        if not self.owns_room(room_id):
            return None
        refusal = LocalError(
            f"{room_id} cannot be removed: it is a room in which nodes exchange agents, not a portal.",
            "Use `palaver rooms leave` to make this node leave the room.",
        )
        return PortalRoom(PORTAL, refusal=refusal)

    def routes(self) -> list[web.RouteDef]:
        return CisEndpoints(self._parts.settings, self._receiver, self._parts.version).routes()

    async def start(self) -> None:
        """Start without waiting for peers: their rooms are joined when they can be reached."""
        self._unsubscribe = self._parts.follow_peers(self._peers_changed)
        await self._parts.ghosts.ensure(self._parts.names.node_user)
        await self._own_rooms.create_all()
        await self._trust.start()
        self._rejections.start()
        self._published.start()
        self._heartbeats.start()
        self._background.supervise("rooms of agents", self._lead_for_ever)

    async def stop(self) -> None:
        """Stop reading events. Events are still sent until `close`."""
        self._is_stopping.set()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def close(self) -> None:
        self._unsubscribe()
        await self.stop()
        if self._leader is not None:
            # Peers should be notified that the local agents are offline.
            await self._leader.announcer.flush(FLUSH_TIMEOUT)
        await self._background.close()
        await self._heartbeats.close()
        await self._published.close()
        await self._rejections.close()
        await self._room_sender.close()
        await self._client.close()

    async def announce_lost(self, lost: Sequence[Agent]) -> None:
        """Notify the owning node of each of its agents that has timed out while the node itself is online.
        Agents of this node are unregistered as usual, and each node detects by itself that another node is
        offline."""
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
                timestamp=event_fields.from_milliseconds(gone_at),
            )
            namespace = await self._messenger.namespace_of(access.peer, agent.address)
            if namespace is not None:
                sender = self._parts.settings.node_address
                key = f"lost {agent.address} {gone_at}"
                outgoing = OutgoingEvent(event, namespace, sender, key, gone_at + MESSAGE_VALIDITY_MS)
                await self._messenger.send(access, outgoing)

    # -- messages between agents --

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener with messages to agents of this node and to all agents. Return a function that
        unsubscribes it."""
        return self._dispatcher.subscribe(listener)

    async def send_message(
        self, from_agent: AgentAddress, to_agent: AgentAddress | None, message_type: str, payload: Any
    ) -> Sent | NotSent:
        """Send a message from an agent of this node to an agent of another node, or to all agents."""
        problem = problem_of({"payload": payload}, 96)
        if problem is not None:
            return NotSent(f"{problem[0]} {problem[1]}.", is_final=True)
        now_ms, settings = self._parts.now_ms(), self._parts.settings
        event = Message(
            message_id=f"msg-{secrets.token_hex(16)}",
            from_agent=from_agent,
            to_agent=to_agent,
            message_type=message_type,
            payload=payload,
            timestamp=event_fields.from_milliseconds(now_ms),
        )
        outgoing = OutgoingEvent(
            event, settings.main_namespace, from_agent, event.message_id, now_ms + MESSAGE_VALIDITY_MS
        )
        if to_agent is None:
            outcome: Sent | NotSent = Sent(new_event_id())
            if settings.has_rooms:
                outcome = await self._room_sender.send(event, settings.broadcast_room, from_agent, event.message_id)
            for peer in settings.published():
                await self._published.send(peer, outgoing)
            return outcome
        access = settings.access(to_agent.node_id)
        if access is None:
            return NotSent(f"This node does not exchange agents with {to_agent.node_id}.", is_final=True)
        namespace = await self._messenger.namespace_of(access.peer, to_agent)
        if namespace is None:
            return NotSent(f"This node and {to_agent.node_id} have no namespace in common.", is_final=True)
        return await self._messenger.send(access, replace(outgoing, namespace=namespace))

    # -- notifications --

    def _peers_changed(self, node_ids: Collection[str]) -> None:
        for node_id in node_ids:
            self._spawn(self._trust.peer_changed(node_id))
            if self._leader is not None:
                self._leader.peer_changed(node_id)

    def _missed(self, effect: ReannounceAgent) -> None:
        if self._leader is not None:
            self._spawn(self._leader.announcer.announce_again(effect.agent))

    def _registered(self, node_id: str) -> None:
        self._published.peer_registered(node_id)
        if self._leader is not None:
            self._leader.joiner.peer_active(node_id)

    def _unknown(self, node_id: str, agent_ids: Sequence[str]) -> None:
        """Discover agents that were never registered here: their registration may be delayed or may be
        lost."""
        access, now_ms = self._parts.settings.access(node_id), self._parts.now_ms()
        if access is None or not access.is_homeserver:
            return
        if now_ms >= self._discovered_at.get(node_id, 0) + DISCOVERY_INTERVAL_MS:
            self._discovered_at[node_id] = now_ms
            self._spawn(self._discovery.discover(access.peer, agent_ids))

    def _returned(self, heartbeat: NodeHeartbeat) -> None:
        if self._leader is not None:
            self._leader.joiner.peer_active(heartbeat.node_id)
        access = self._parts.settings.access(heartbeat.node_id)
        if heartbeat.statuses is None and access is not None:
            # The heartbeat does not list the agents that it covers, but the node's rooms do.
            self._spawn(self._discovery.discover(access.peer, as_of=heartbeat.sent_at))

    async def _undeliverable(self, key: TaskKey, reason: str) -> None:
        await self._tasks.fail_unreachable(key, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.spawn("follow-up to an event of a peer", self._reported(work))

    async def _reported(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ConnectionLost:
            pass  # a later event or heartbeat triggers the same work again
        except Exception as error:
            self._parts.observer.report_problem("Failed to follow up an event of a peer.", error)

    # -- the leader --

    async def _lead_for_ever(self) -> None:
        while True:
            try:
                async with (
                    self._parts.backend.subscription(NAME, wanted=self._concerns) as subscription,
                    run_leader_services(self._shared_services()) as leader,
                ):
                    self._leader = leader
                    await self._read(leader, subscription)
            except (ReaderReplaced, ConnectionLost):
                pass  # another process is the leader, or the database is unavailable
            except Exception as error:
                self._parts.observer.report_problem("Failed to read the rooms of agents.", error)
            finally:
                self._leader = None
            await asyncio.sleep(LEADER_RETRY)

    def _concerns(self, event: RoomEvent) -> bool:
        return room_reader.concerns(event, self._parts.settings)

    async def _read(self, leader: LeaderServices, subscription: Subscription) -> None:
        """Read events until reading fails. After `stop`, keep the leader's services running without
        reading."""
        if not self._is_stopping.is_set():
            self._reading = self._background.spawn(
                "reading of rooms of agents", leader.reader.read(subscription), reports=False
            )
            try:
                await asyncio.wait({self._reading})
                if not self._reading.cancelled():
                    self._reading.result()
            finally:
                self._reading.cancel()
        await asyncio.Event().wait()

    def _shared_services(self) -> SharedServices:
        parts = self._parts
        return SharedServices(
            backend=parts.backend,
            routes=parts.routes,
            settings=parts.settings,
            names=parts.names,
            room_sender=self._room_sender,
            dispatcher=self._dispatcher,
            discovery=self._discovery,
            published=self._published,
            outbox=self._outbox,
            observer=parts.observer,
            namespaces_of=parts.namespaces_of,
            now_ms=parts.now_ms,
        )
