"""Sends events to published nodes. They are in no rooms, so each of them is sent every event separately."""

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Final

from nacl.signing import SigningKey

from bridge.agents.agent import Agent
from bridge.agents.routing_table import Change, RoutingTable
from bridge.connectors.cis.event_record import EventRecord, Verdict, subject_of
from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.error_codes import Delivered
from bridge.connectors.cis.protocol.events import AnyAgentEvent, AnyEvent, Heartbeat
from bridge.connectors.cis.protocol.published import signed_body
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.protocol.rooms import AgentRoom
from bridge.connectors.cis.registrations import Introductions, registered
from bridge.connectors.cis.service.long_texts import fit_event
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, Sent
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

VALIDITY_MS: Final = 120_000
"""How long an agent event is kept for a node that cannot be reached. A node that was unreachable for longer
gets the whole list of agents again."""
CONCURRENT_HEARTBEATS: Final = 8
"""The number of heartbeats that are sent to one node at the same time."""
PAGE_SIZE: Final = 500

RoomsOf = Callable[[Agent], Collection[AgentRoom]]


class PublishedMessenger:
    """`rooms_of` returns the rooms in which a local agent is announced. It runs between `start` and
    `close`."""

    def __init__(
        self,
        backend: MatrixBackend,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        client: EventClient,
        outbox: PublishedOutbox,
        observer: CisObserver,
        *,
        names: GhostNames,
        key: Callable[[], SigningKey],
        rooms_of: RoomsOf,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._database = database
        self._routes = routes
        self._settings = settings
        self._client = client
        self._outbox = outbox
        self._observer = observer
        self._names = names
        self._key = key
        self._rooms_of = rooms_of
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._introductions = Introductions()
        self._due: dict[str, None] = {}
        self._woken = asyncio.Event()
        self._background = BackgroundTasks()
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._unsubscribe = self._routes.subscribe(self._changed)
        self._background.supervise("introductions to published nodes", self._introduce_for_ever)

    async def close(self) -> None:
        self._unsubscribe()
        await self._background.close()

    # -- to one node --

    async def send(self, access: PeerAccess, outgoing: OutgoingEvent) -> Sent | NotSent:
        """Enqueue an event in the database, unless one with the same key was enqueued before."""
        event = await fit_event(self._backend, outgoing.event, self._names.node_user, PeerProfile.CIS_1_1)
        if isinstance(event, TooLarge):
            return NotSent(event.reason, is_final=True)
        event_id, peer = new_event_id(), access.peer.node_id
        body = signed_body(event, event_id, outgoing.sender, outgoing.namespace, self._settings, self._key())
        async with self._database.transaction() as connection:
            is_enqueued = await self._outbox.enqueue(
                connection, peer, outgoing.key, body, outgoing.deadline, outgoing.task
            )
        if not is_enqueued:
            return NotSent(f"The queue of events for {peer} is full.")
        self._outbox.wake()
        self._record(peer, event)
        return Sent(event_id)

    # -- to all nodes --

    async def broadcast(self, event: AnyAgentEvent, rooms: Collection[AgentRoom]) -> None:
        """Enqueue an event for the nodes that may receive the events of one of these rooms."""
        peers = [access.peer for access in self._settings.published() if self._may_receive(access.peer, rooms)]
        # "All other events of one broadcast share an `event_id`".
        await self._enqueue(peers, [event], [new_event_id()])

    async def send_heartbeats(self) -> None:
        """Send a heartbeat of each agent to each node. They are not queued; a node that does not answer is
        skipped until the next interval."""
        await asyncio.gather(*(self._send_heartbeats_to(access) for access in self._settings.published()))

    def peer_registered(self, node_id: str) -> None:
        """A node has registered an agent: it may not know the agents of this node yet."""
        access = self._settings.access(node_id)
        if access is None or access.is_homeserver:
            return
        if self._introductions.registered(node_id, self._now()):
            self._due[node_id] = None
        self._woken.set()

    def peer_distrusted(self, node_id: str) -> None:
        """A node is no longer trusted. If it is trusted again, it gets the list of agents again."""
        self._due.pop(node_id, None)
        self._introductions.lost(node_id)

    # -- inside --

    def _may_receive(self, peer: Peer, rooms: Collection[AgentRoom]) -> bool:
        return any(self._settings.may_use(peer, room) for room in rooms)

    def _visible_agents(self, peer: Peer) -> list[Agent]:
        agents = self._routes.table.agents_of(self._settings.node_id).values()
        return [agent for agent in agents if agent.is_online and self._may_receive(peer, self._rooms_of(agent))]

    async def _send_heartbeats_to(self, access: PeerAccess) -> None:
        agents = iter(self._visible_agents(access.peer))
        url, is_reachable = access.url, True

        async def send() -> None:
            nonlocal is_reachable
            for agent in agents:
                if url is None or not is_reachable:
                    return
                heartbeat = Heartbeat(
                    agent_id=agent.agent_id,
                    node_id=agent.node_id,
                    status=agent.status,
                    timestamp=event_fields.from_milliseconds(self._now_ms()),
                )
                # "a heartbeat gets a new one for each peer"
                body = self._signed_body(heartbeat, new_event_id())
                is_reachable = isinstance(await self._client.send(url, body), Delivered) and is_reachable

        await asyncio.gather(*(send() for _ in range(CONCURRENT_HEARTBEATS)))

    def _changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.after is not None and change.after.is_lost:
                self._introductions.lost(change.after.node_id)

    async def _introduce_for_ever(self) -> None:
        while True:
            self._due |= dict.fromkeys(self._introductions.due(self._now()))
            due, self._due = self._due, {}
            for node_id in due:
                try:
                    await self._introduce(node_id)
                except ConnectionLost:
                    self._introductions.lost(node_id)
                except Exception as error:
                    self._observer.report_problem(f"Failed to send the list of agents to {node_id}.", error)
            deadline = self._introductions.deadline()
            wait = None if deadline is None else max(0, deadline - self._now()) / 1000
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                continue
            self._woken.clear()

    async def _introduce(self, node_id: str) -> None:
        """ "may answer a registration with its own list\""""
        access = self._settings.access(node_id)
        if access is None:
            return
        events = [registered(agent) for agent in self._visible_agents(access.peer)]
        for begin in range(0, len(events), PAGE_SIZE):
            page = events[begin : begin + PAGE_SIZE]
            await self._enqueue([access.peer], page, [new_event_id() for _ in page])

    async def _enqueue(self, peers: Sequence[Peer], events: Sequence[AnyAgentEvent], event_ids: Sequence[str]) -> None:
        if not peers:
            return
        deadline = self._now_ms() + VALIDITY_MS
        bodies = [self._signed_body(event, event_id) for event, event_id in zip(events, event_ids, strict=True)]
        async with self._database.transaction() as connection:
            for peer in peers:
                for event_id, body in zip(event_ids, bodies, strict=True):
                    await self._outbox.enqueue(connection, peer.node_id, event_id, body, deadline)
        self._outbox.wake()
        for peer in peers:
            for event in events:
                self._record(peer.node_id, event)

    def _signed_body(self, event: AnyAgentEvent, event_id: str) -> bytes:
        namespace = self._settings.main_namespace
        return signed_body(event, event_id, event.agent, namespace, self._settings, self._key())

    def _record(self, peer: str, event: AnyEvent) -> None:
        self._observer.record(EventRecord(peer, event.TYPE, Verdict.SENT, subject=subject_of(event)))

    def _now(self) -> int:
        return int(self._monotonic() * 1000)


def new_event_id() -> str:
    """Return an event id in the form that published nodes use."""
    return f"${uuid.uuid4()}"
