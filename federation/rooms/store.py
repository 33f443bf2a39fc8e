"""Rooms, events and states as they are loaded and remembered.

Everything that is remembered is either unchangeable (an event that has its place, a state, the edges of the
graph) or is compared with the room's generation by whoever is about to write.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from cachetools import LRUCache

from federation.caches import WeightedCache
from federation.events import EventId, view
from federation.matrix.canonical_json import decode
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion
from federation.rooms.ports import RoomView
from federation.rooms.receive_checks import KnownEvent
from federation.rooms.server_acl import ACL, NO_ACL, ServerAcl, server_acl
from federation.state_resolution.state_groups import StateGroup, rebuilt
from storage.database import Connection, Database
from storage.rooms.events import StoredEvent, fetch_auth_edges, fetch_events
from storage.rooms.rooms import RoomRow, count_joined_by_server, fetch_chain, fetch_rooms, reserve_ids

T = TypeVar("T")

MOST_ROOMS: Final = 2_000
MOST_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Of events as they are sent; in memory one takes some ten times that."""
MOST_STATE_ENTRIES: Final = 300_000
"""In all the states that are remembered together. Each takes about a hundred bytes."""
MOST_MERGES: Final = 1_000
MOST_EDGES: Final = 100_000
MOST_ACLS: Final = 1_000


@dataclass(slots=True)
class RoomMemory:
    """What a process remembers of a room."""

    view: RoomView
    joined: Mapping[str, int]
    """How many members of each server are joined in the current state."""
    merges: dict[frozenset[int], int] = field(default_factory=dict)
    """States that were resolved, and to which state."""
    edges: dict[EventId, tuple[EventId, ...]] = field(default_factory=dict)
    """The auth events of events, as far as state resolution had to know them."""


class RoomStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._rooms: LRUCache[str, RoomMemory] = LRUCache(MOST_ROOMS)
        self._events: WeightedCache[EventId, KnownEvent] = WeightedCache(
            MOST_EVENT_BYTES, lambda event: len(event.pdu.canonical)
        )
        self._groups: WeightedCache[int, StateGroup] = WeightedCache(
            MOST_STATE_ENTRIES, lambda group: len(group.state) + 1
        )
        self._acls: LRUCache[EventId, ServerAcl] = LRUCache(MOST_ACLS)
        self._ids: list[int] = []

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """For reading."""
        async with self._database.transaction(readonly=True) as connection:
            yield connection

    async def look(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Read something, every statement for itself."""
        return await self._database.read(work)

    async def _read(self, connection: "Connection | None", work: Callable[[Connection], Awaitable[T]]) -> T:
        """On this connection, or for itself."""
        return await self.look(work) if connection is None else await work(connection)

    # -- rooms --

    async def rooms(self, room_ids: Iterable[str]) -> dict[str, RoomMemory]:
        """Those that exist, as they stand now in the database."""
        wanted = [room_id for room_id in room_ids if "\0" not in room_id]  # Postgres takes no text with NUL
        if not wanted:
            return {}

        async def read(connection: Connection) -> dict[str, RoomMemory]:
            rows = await fetch_rooms(connection, wanted)
            return {row.room_id: await self.room_of(row, connection) for row in rows}

        return await self.look(read)

    def remembered_room(self, room_id: str) -> RoomMemory | None:
        """The room as this process knew it last."""
        return self._rooms.get(room_id)

    async def version(self, room_id: str) -> RoomVersion:
        """Of a room that there is. It never changes."""
        memory = self._rooms.get(room_id) or (await self.rooms([room_id]))[room_id]
        return memory.view.version

    async def room_of(self, row: RoomRow, connection: Connection) -> RoomMemory:
        """What is remembered, if nobody has written to the room since; otherwise what the row says."""
        memory = self._rooms.get(row.room_id)
        if memory is not None and memory.view.generation == row.generation:
            return memory
        view_ = RoomView(
            row.room_id,
            ROOM_VERSIONS[row.version],
            row.generation,
            tuple(row.forward_extremities),
            row.state_group,
        )
        joined = await count_joined_by_server(connection, row.room_id)
        # States and edges never change, whoever wrote to the room.
        fresh = (
            RoomMemory(view_, joined)
            if memory is None
            else RoomMemory(view_, joined, memory.merges, memory.edges)
        )
        if memory is None or memory.view.generation < row.generation:
            self._rooms[row.room_id] = fresh
        return fresh

    def remember_room(self, memory: RoomMemory) -> None:
        """After it was committed."""
        for bounded, most in ((memory.merges, MOST_MERGES), (memory.edges, MOST_EDGES)):
            if len(bounded) > most:
                bounded.clear()
        self._rooms[memory.view.room_id] = memory

    # -- events --

    async def events(
        self, event_ids: Iterable[EventId], connection: "Connection | None" = None, *, placed: bool = False
    ) -> dict[EventId, KnownEvent]:
        """Those that are known. With `placed` an event is looked up anew that had no place when it was
        remembered: another process may have found it one."""
        found: dict[EventId, KnownEvent] = {}
        wanted = []
        for event_id in event_ids:
            event = self._events.get(event_id)
            if "\0" in event_id:
                continue  # no event has such an id, and Postgres takes no text with NUL
            if event is None or (placed and event.is_outlier):
                wanted.append(event_id)
            else:
                found[event_id] = event
        if wanted:
            for row in await self._read(connection, lambda reading: fetch_events(reading, wanted)):
                found[row.event_id] = event = _known(row)
                self.remember_event(event)
        return found

    def remembered_event(self, event_id: EventId) -> KnownEvent | None:
        """The event as this process knew it last."""
        return self._events.get(event_id)

    def remember_event(self, event: KnownEvent) -> None:
        """After it was committed."""
        self._events[event.pdu.event_id] = event

    async def auth_edges(
        self, event_ids: Iterable[EventId], connection: Connection
    ) -> dict[EventId, tuple[EventId, ...]]:
        """Of the events and all that lies behind them."""
        rows = await fetch_auth_edges(connection, event_ids)
        return {event_id: tuple(auth_events) for event_id, auth_events in rows}

    # -- states --

    async def acl(self, memory: RoomMemory) -> ServerAcl:
        """Which servers may take part in the room, by its current state."""
        event_id = (await self.group(memory.view.state_group)).state.get(ACL)
        if event_id is None:
            return NO_ACL
        acl = self._acls.get(event_id)
        if acl is None:
            acl = self._acls[event_id] = server_acl((await self.events([event_id]))[event_id].pdu.content)
        return acl

    async def group(self, group_id: int, connection: "Connection | None" = None) -> StateGroup:
        group = self._groups.get(group_id)
        if group is None:
            chain = await self._read(connection, lambda reading: fetch_chain(reading, group_id))
            assert chain, f"state group {group_id} is referred to and does not exist"
            group = StateGroup(group_id, rebuilt(chain), chain[-1].distance)
            self.remember_group(group)
        return group

    def remember_group(self, group: StateGroup) -> None:
        """After it was committed."""
        self._groups[group.id] = group

    async def next_group_id(self, connection: Connection) -> int:
        while not self._ids:
            self._ids.extend(reversed(await reserve_ids(connection)))
        return self._ids.pop()


def _known(row: StoredEvent) -> KnownEvent:
    version = ROOM_VERSIONS[row.version]
    pdu = view(decode(row.canonical), row.canonical, row.event_id, version)
    return KnownEvent(pdu, row.verdict, row.refusal, row.state_before, row.state_after)
