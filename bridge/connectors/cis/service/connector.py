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

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.agent_news import NodeHeartbeat
from bridge.connectors.cis import timestamps
from bridge.connectors.cis.act import CisObserver
from bridge.connectors.cis.effects import Missed
from bridge.connectors.cis.events import Message, Unregistered
from bridge.connectors.cis.json_value import problem_of
from bridge.connectors.cis.service import incoming
from bridge.connectors.cis.service.announcing import NamespacesOf
from bridge.connectors.cis.service.beats import HeardBeats
from bridge.connectors.cis.service.channels import Channels, Letter
from bridge.connectors.cis.service.leading import Followers, Lead, leading
from bridge.connectors.cis.service.learning import Learning
from bridge.connectors.cis.service.own_rooms import OwnRooms
from bridge.connectors.cis.service.published.client import EventClient
from bridge.connectors.cis.service.published.outbox import PublishedOutbox
from bridge.connectors.cis.service.published.publishing import Publishing, new_event_id
from bridge.connectors.cis.service.published.receiving import Receiving
from bridge.connectors.cis.service.refusing import Refusing
from bridge.connectors.cis.service.speech import NotSaid, Said, Speech
from bridge.connectors.cis.service.taking import Listener, Taking
from bridge.connectors.cis.service.tasks import TaskDelivery, TaskReply
from bridge.connectors.cis.service.trusting import Trusting
from bridge.connectors.cis.service.whole_texts import WholeTexts
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.connectors.cis.wire.endpoints import CisEndpoints
from bridge.ghost_names import GhostNames
from bridge.matrix_side import MatrixSide
from bridge.matrix_stream import Subscription
from bridge.service.ghosts import Ghosts
from bridge.service.routing_table import RoutingTable
from bridge.service.task_desk import TaskDesk
from bridge.task_ports import Delivery, Reply
from bridge.task_request import TaskKey
from federation.room_event import EventHead, RoomEvent
from federation.side_capability import SideCapability
from storage.connecting import ConnectionLost
from storage.consumers import TakenOver
from storage.database import Database

AGAIN: Final = 0.5
"""Seconds until it is tried again to lead."""
LEARNED_AGAIN_MS: Final = 10_000
"""The agents of a node are looked up no more often than this, whatever it says."""
PATIENCE: Final = 2.0
"""Seconds that the last words of a node may take."""
MESSAGE_WORTH_MS: Final = 300_000


FollowPeers = Callable[[Callable[[Collection[str]], None]], Callable[[], None]]
"""Be told the ids of peers that have changed, once `CisSettings.peers` says so; gives what ends it."""


def peers_stay(listener: Callable[[Collection[str]], None]) -> Callable[[], None]:
    """They are those of the configuration, for as long as the node runs."""
    return lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class CisParts:
    """What the connector is given. On a side that cannot name its rooms there are none for agents, and other
    nodes get single events. `namespaces_of` says of an agent of this node where it is; `key` is the node's
    own; `is_spoken_with`: whether this node federates with a server, whatever for."""

    side: MatrixSide
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


class CisConnector:
    """Satisfies `bridge.connectors.interface.Connector`, and `BringsTasks`, `AsksForTasks`, `PreparesTasks`,
    `HasRoutes`, `AnnouncesLost`."""

    def __init__(self, parts: CisParts) -> None:
        has_rooms = SideCapability.ROOM_IDS in parts.side.capabilities
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
        self._delivery = TaskDelivery(settings, self._channels, now_ms=now_ms)
        self._reply = TaskReply(settings, self._channels, observer, now_ms=now_ms)
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
        self._background: set[asyncio.Task[None]] = set()
        self._leader: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_ending = asyncio.Event()
        self._end: Callable[[], None] = lambda: None
        self._desk: TaskDesk

    # -- what it can do --

    @property
    def name(self) -> str:
        return NAME

    @property
    def delivery(self) -> Delivery:
        return self._delivery

    @property
    def reply(self) -> Reply:
        return self._reply

    def prepared(self, delivery: Delivery) -> Delivery:
        """With the whole of the texts that were too long for an event."""
        return WholeTexts(self._parts.side, delivery)

    def use_desk(self, desk: TaskDesk) -> None:
        self._desk = desk
        self._taking.use_desk(desk)
        self._trusting.use_desk(desk)

    def routes(self) -> list[web.RouteDef]:
        return CisEndpoints(self._parts.settings, self._receiving, self._parts.version).routes()

    async def start(self) -> None:
        """Peers are joined when they are there. `use_desk` comes first."""
        self._end = self._parts.follow_peers(self._peers_changed)
        await self._parts.ghosts.appear(self._parts.names.node_user)
        await self._own_rooms.make()
        await self._trusting.begin()
        self._refusing.start()
        self._publishing.start()
        self._heard.start()
        self._leader = asyncio.create_task(self._lead_for_ever())

    async def ask_no_more(self) -> None:
        """Nothing more is read; what is still to be said is."""
        self._is_ending.set()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def close(self) -> None:
        self._end()
        await self.ask_no_more()
        if self._lead is not None:
            # That agents go is worth saying.
            await self._lead.announcing.settled(PATIENCE)
        works = [work for work in (*self._background, self._leader) if work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
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
            self._start(self._learning.learn(access.peer, as_of=beat.said_at))

    async def _refused(self, key: TaskKey, reason: str) -> None:
        await self._desk.unreachable(key, reason)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._watched(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

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
                    self._parts.side.subscription(
                        NAME, wanted=self._concerns, foresees=self._foresee
                    ) as subscription,
                    leading(self._followers()) as lead,
                ):
                    self._lead = lead
                    await self._read(lead, subscription)
            except (TakenOver, ConnectionLost):
                pass  # another process reads, or nobody can
            except Exception as error:
                self._parts.observer.problem("The rooms of agents could not be read.", error)
            finally:
                self._lead = None
            await asyncio.sleep(AGAIN)

    def _concerns(self, event: EventHead) -> bool:
        return incoming.concerns(event, self._parts.settings)

    def _foresee(self, event: RoomEvent) -> None:
        if self._lead is not None:
            self._lead.incoming.foresee(event)

    async def _read(self, lead: Lead, subscription: Subscription) -> None:
        """Until something is wrong; or until nothing more is to be read, and then for ever."""
        if not self._is_ending.is_set():
            self._reading = asyncio.create_task(lead.incoming.read(subscription))
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
