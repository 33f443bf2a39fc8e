"""What published nodes are told, which are in no rooms: each of them gets every event by itself."""

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Final

from nacl.signing import SigningKey

from bridge.agents.agent import Agent
from bridge.agents.routing_table import Change, RoutingTable
from bridge.connectors.cis.acts import Act, Verdict, subject_of
from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.error_codes import Delivered
from bridge.connectors.cis.protocol.events import AnyAgentEvent, AnyEvent, Heartbeat
from bridge.connectors.cis.protocol.published import written
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.protocol.rooms import AgentRoom
from bridge.connectors.cis.registrations import Introductions, registered
from bridge.connectors.cis.service.long_texts import fitting
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import Letter, NotSaid, Said
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

WORTH_MS: Final = 120_000
"""For so long it is worth something what was said of an agent. Who was away longer is introduced anew."""
AT_ONCE: Final = 8
"""Heartbeats to one node that are on their way at the same time."""
ENQUEUED_AT_ONCE: Final = 500

RoomsOf = Callable[[Agent], Collection[AgentRoom]]


class Publishing:
    """`rooms_of` says of an agent of this node where it is told of. It runs between `start` and `close`."""

    def __init__(
        self,
        side: MatrixBackend,
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
        self._side = side
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
        self._end: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._end = self._routes.subscribe(self._changed)
        self._background.supervise("introductions to published nodes", self._introduce_for_ever)

    async def close(self) -> None:
        self._end()
        await self._background.close()

    # -- to one of them --

    async def post(self, access: PeerAccess, letter: Letter) -> Said | NotSaid:
        """On return it waits in the database, or was sent before under its name."""
        event = await fitting(self._side, letter.event, self._names.node_user, PeerProfile.CIS_1_1)
        if isinstance(event, TooLarge):
            return NotSaid(event.reason, is_final=True)
        event_id, peer = new_event_id(), access.peer.node_id
        body = written(event, event_id, letter.speaker, letter.namespace, self._settings, self._key())
        async with self._database.transaction() as connection:
            taken = await self._outbox.enqueue(
                connection, peer, letter.name, body, letter.deadline, letter.task
            )
        if not taken:
            return NotSaid(f"Too much waits for {peer} already.")
        self._outbox.wake()
        self._note(peer, event)
        return Said(event_id)

    # -- to all of them --

    async def tell(self, event: AnyAgentEvent, rooms: Collection[AgentRoom]) -> None:
        """Those who may know of it: in rooms, it would be said in these."""
        peers = [one.peer for one in self._settings.published() if self._concerns(one.peer, rooms)]
        # "All other events of one broadcast share an `event_id`".
        await self._enqueue(peers, [event], [new_event_id()])

    async def beat(self) -> None:
        """A heartbeat of each agent to each of them. They are not queued, and who does not answer is left
        alone until the next time."""
        await asyncio.gather(*(self._beat_at(access) for access in self._settings.published()))

    def registered(self, node_id: str) -> None:
        """One of them has an agent to tell of: perhaps it does not know ours."""
        access = self._settings.access(node_id)
        if access is None or access.is_homeserver:
            return
        if self._introductions.registered(node_id, self._now()):
            self._due[node_id] = None
        self._woken.set()

    def distrusted(self, node_id: str) -> None:
        """If it comes back, it is told of our agents anew."""
        self._due.pop(node_id, None)
        self._introductions.lost(node_id)

    # -- inside --

    def _concerns(self, peer: Peer, rooms: Collection[AgentRoom]) -> bool:
        return any(self._settings.may_use(peer, room) for room in rooms)

    def _known_to(self, peer: Peer) -> list[Agent]:
        agents = self._routes.table.agents_of(self._settings.node_id).values()
        return [one for one in agents if one.is_online and self._concerns(peer, self._rooms_of(one))]

    async def _beat_at(self, access: PeerAccess) -> None:
        agents = iter(self._known_to(access.peer))
        url, is_there = access.url, True

        async def send() -> None:
            nonlocal is_there
            for agent in agents:
                if url is None or not is_there:
                    return
                beat = Heartbeat(
                    agent_id=agent.agent_id,
                    node_id=agent.node_id,
                    status=agent.status,
                    timestamp=timestamps.of(self._now_ms()),
                )
                # "a heartbeat gets a new one for each peer"
                body = self._written(beat, new_event_id())
                is_there = isinstance(await self._client.send(url, body), Delivered) and is_there

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))

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
                    self._observer.problem(f"Our agents could not be introduced to {node_id}.", error)
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
        events = [registered(agent) for agent in self._known_to(access.peer)]
        for begin in range(0, len(events), ENQUEUED_AT_ONCE):
            page = events[begin : begin + ENQUEUED_AT_ONCE]
            await self._enqueue([access.peer], page, [new_event_id() for _ in page])

    async def _enqueue(
        self, peers: Sequence[Peer], events: Sequence[AnyAgentEvent], event_ids: Sequence[str]
    ) -> None:
        if not peers:
            return
        deadline = self._now_ms() + WORTH_MS
        bodies = [self._written(event, one) for event, one in zip(events, event_ids, strict=True)]
        async with self._database.transaction() as connection:
            for peer in peers:
                for event_id, body in zip(event_ids, bodies, strict=True):
                    await self._outbox.enqueue(connection, peer.node_id, event_id, body, deadline)
        self._outbox.wake()
        for peer in peers:
            for event in events:
                self._note(peer.node_id, event)

    def _written(self, event: AnyAgentEvent, event_id: str) -> bytes:
        namespace = self._settings.main_namespace
        return written(event, event_id, event.agent, namespace, self._settings, self._key())

    def _note(self, peer: str, event: AnyEvent) -> None:
        self._observer.acted(Act(peer, event.TYPE, Verdict.SENT, subject=subject_of(event)))

    def _now(self) -> int:
        return int(self._monotonic() * 1000)


def new_event_id() -> str:
    """As published nodes make theirs."""
    return f"${uuid.uuid4()}"
