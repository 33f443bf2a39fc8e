"""A room graph for tests: its keys and clock are known, and its peer is a room of `tests/support/rooms.py`
that can be made to lie."""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from federation.client.errors import PeerUnreachable
from federation.client.peer_events import RemoteState, StateIds
from federation.events import EventId, Pdu
from federation.events.graph import walk_backwards, walk_missing_events
from federation.keys.server_keys import KeyNeed
from federation.matrix.errors import PeerError
from federation.matrix.signatures import VerifyKey
from federation.observer import HomeserverObserver
from federation.rooms.engine import RoomGraph
from federation.rooms.ports import CommittedEvent
from federation.state_resolution.conflicts import reachable
from storage.database import Database
from storage.federation.outbox import QueuedPdu
from tests.support.rooms import Room, signer, verify_keys

HERE = "here.example"
US = f"@us:{HERE}"
SERVERS = (HERE, "a.example", "b.example", "c.example", "d.example")
NOW = 1_700_000_000_000


async def streamed(graph: RoomGraph, after: int = 0, limit: int = 1_000) -> list[Pdu]:
    """Return the entries of the stream after a position."""
    read = await graph.stream.read(after, limit)
    event_ids = [entry.event.event_id for entry in read.entries]
    events = await graph.events(event_ids)
    return [events[event_id] for event_id in event_ids]


@dataclass
class KnownKeys:
    """The keys of all test servers, except those that were removed."""

    keys: dict[str, dict[str, VerifyKey]] = field(default_factory=lambda: verify_keys(*SERVERS))

    async def keys_for(self, needs: Iterable[KeyNeed]) -> Mapping[str, Mapping[str, VerifyKey]]:
        return {need.server: self.keys.get(need.server, {}) for need in needs}


@dataclass
class PeerRoom:
    """Responds like a server that has the whole room. `calls` records the requests."""

    room: Room
    hidden: set[EventId] = field(default_factory=set)
    """The events that it never returns."""
    no_missing: bool = False
    no_state: bool = False
    unreachable: set[str] = field(default_factory=set)
    """Questions on which the connection breaks off."""
    also: list[Any] = field(default_factory=list)
    """What it adds to every list of events."""
    policy: Callable[[Mapping[str, Any]], Any] = lambda event: {}
    """What it answers as a policy server."""
    calls: list[tuple[str, str]] = field(default_factory=list)

    async def missing_events(
        self,
        peer: str,
        room_id: str,
        *,
        earliest: Collection[EventId],
        latest: Collection[EventId],
        limit: int,
        min_depth: int,
    ) -> Sequence[Any]:
        self._come("missing_events", room_id)
        if self.no_missing:
            raise PeerError(peer, "answered 404")
        walk = walk_missing_events(latest, earliest, self.room.events, limit=limit, min_depth=min_depth)
        return self._given(walk.found)

    async def state_ids(self, peer: str, room_id: str, event_id: EventId) -> StateIds:
        self._come("state_ids", event_id)
        if self.no_state or event_id not in self.room.events:
            raise PeerError(peer, "answered 404")
        state = self._state_before(event_id)
        chain = reachable(state, lambda one: self.room.events[one].auth_events)
        return StateIds(tuple(state), tuple(chain))

    async def state(self, peer: str, room_id: str, event_id: EventId) -> RemoteState:
        self._come("state", event_id)
        state = self._state_before(event_id)
        chain = reachable(state, lambda one: self.room.events[one].auth_events)
        return RemoteState(self._given(state), self._given(chain))

    async def event(self, peer: str, event_id: EventId) -> Any:
        self._come("event", event_id)
        if event_id in self.hidden or event_id not in self.room.events:
            raise PeerError(peer, "answered 404")
        return self.room.events[event_id].event

    async def event_auth(self, peer: str, room_id: str, event_id: EventId) -> Sequence[Any]:
        self._come("event_auth", event_id)
        if event_id not in self.room.events:
            raise PeerError(peer, "answered 404")
        chain = reachable([event_id], lambda one: self.room.events[one].auth_events)
        return self._given(chain - {event_id})

    async def backfill(self, peer: str, room_id: str, event_ids: Collection[EventId], limit: int) -> Sequence[Any]:
        self._come("backfill", room_id)
        if self.no_missing:
            raise PeerError(peer, "answered 404")
        return self._given(walk_backwards(event_ids, self.room.events, limit).found)

    async def sign(self, server: str, event: Mapping[str, Any]) -> Any:
        self._come("sign", server)
        return self.policy(event)

    def asked(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _come(self, question: str, about: str) -> None:
        self.calls.append((question, about))
        if question in self.unreachable:
            raise PeerUnreachable("the peer", "closed the connection")

    def _given(self, event_ids: Iterable[EventId]) -> list[Any]:
        return [self.room.events[one].event for one in event_ids if one not in self.hidden] + self.also

    def _state_before(self, event_id: EventId) -> list[EventId]:
        ends = [self.room.events[one] for one in self.room.events[event_id].prev_events]
        return [pdu.event_id for pdu in self.room.state(ends).values()]


@dataclass
class Hook:
    """Records what was passed to the outbox."""

    committed: list[CommittedEvent] = field(default_factory=list)

    def queue_entries(self, committed: Sequence[CommittedEvent]) -> list[tuple[str, EventId]]:
        """Nothing sends the recorded entries."""
        return []

    def notify_queued(self, committed: Sequence[CommittedEvent], places: Sequence[QueuedPdu]) -> None:
        self.committed += committed

    @property
    def ids(self) -> list[EventId]:
        return [one.pdu.event_id for one in self.committed]


@dataclass
class Counts(HomeserverObserver):
    """An observer that records what it is called with."""

    received: list[str] = field(default_factory=list)
    resolutions: int = 0
    sent: int = 0

    def event_received(self, verdict: str) -> None:
        self.received.append(verdict)

    def state_resolved(self, seconds: float) -> None:
        assert seconds >= 0
        self.resolutions += 1

    def event_sent(self) -> None:
        self.sent += 1


@dataclass
class Graph:
    """A room graph with all its injected parts."""

    graph: RoomGraph
    database: Database
    peer: PeerRoom
    keys: KnownKeys
    hook: Hook
    counts: Counts
    reports: list[str]


@asynccontextmanager
async def graph_on(database: Database, room: Room, *, here: str = HERE) -> AsyncIterator[Graph]:
    """Return a graph without rooms."""
    keys, peer, hook, counts = KnownKeys(), PeerRoom(room), Hook(), Counts()
    reports: list[str] = []
    times = count(NOW)
    graph = RoomGraph(
        here,
        database,
        keys=keys,
        peer_events=peer,
        signer=lambda: signer(here),
        now_ms=lambda: next(times),
        queue=hook,
        observer=counts,
        report=reports.append,
    )
    try:
        yield Graph(graph, database, peer, keys, hook, counts, reports)
    finally:
        await graph.close()


async def join(graph: Graph, room: Room, user: str = US) -> Pdu:
    """Join a user of this server, with a state as `send_join` returns it."""
    state = room.state()
    joined = room.join(user)
    chain = reachable(
        [*(pdu.event_id for pdu in state.values()), joined.event_id], lambda one: room.events[one].auth_events
    )
    return await graph.graph.import_room(
        "a.example",
        room.version,
        state=[pdu.event for pdu in state.values()],
        auth_chain=[room.events[one].event for one in chain if one != joined.event_id],
        event=joined.event,
    )


def raw(*pdus: Pdu) -> list[Any]:
    """Return the events as in a transaction."""
    return [dict(pdu.event) for pdu in pdus]
