"""Loads rooms, events and states from the database and caches them.

Cached values are either immutable (events in the graph, states, auth edges) or have a generation that every
writer compares with the database (rooms). Outliers are read again where their position matters.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from cachetools import LRUCache

from federation.caches import WeightedCache
from federation.events import EventId, make_pdu
from federation.matrix.canonical_json import decode
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion
from federation.rooms.ports import RoomView
from federation.rooms.receive_checks import KnownEvent
from federation.rooms.server_acl import ACL, NO_ACL, ServerAcl, server_acl
from federation.state_resolution.state_groups import StateGroup, rebuild_state
from storage.database import Connection, Database
from storage.rooms.events import StoredEvent, fetch_auth_edges, fetch_events
from storage.rooms.rooms import RoomRow, count_joined_by_server, fetch_chain, fetch_rooms, reserve_ids

T = TypeVar("T")

MAX_ROOMS: Final = 2_000
MAX_EVENT_BYTES: Final = 8 * 1024 * 1024
"""Bytes of canonical JSON. An event in memory takes about ten times that."""
MAX_STATE_ENTRIES: Final = 300_000
"""Entries of all cached states together. Each takes about a hundred bytes."""
MAX_MERGES: Final = 1_000
MAX_EDGES: Final = 100_000
MAX_ACLS: Final = 1_000


@dataclass(slots=True)
class CachedRoom:
    """A room as this process has last seen it."""

    view: RoomView
    joined_servers: Mapping[str, int]
    """The number of joined members of each server in the current state."""
    merges: dict[frozenset[int], int] = field(default_factory=dict)
    """Results of state resolution: the state groups that were resolved, and the resulting group."""
    edges: dict[EventId, tuple[EventId, ...]] = field(default_factory=dict)
    """The auth events of events, as far as state resolution has needed them."""


class RoomStore:
    """Rooms, events and state groups in the database, with bounded caches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rooms: LRUCache[str, CachedRoom] = LRUCache(MAX_ROOMS)
        self._events: WeightedCache[EventId, KnownEvent] = WeightedCache(
            MAX_EVENT_BYTES, lambda event: len(event.pdu.canonical)
        )
        self._groups: WeightedCache[int, StateGroup] = WeightedCache(
            MAX_STATE_ENTRIES, lambda group: len(group.state) + 1
        )
        self._acls: LRUCache[EventId, ServerAcl] = LRUCache(MAX_ACLS)
        self._ids: list[int] = []

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection in a read-only transaction."""
        async with self._database.transaction(readonly=True) as connection:
            yield connection

    async def read_outside_transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a query outside a transaction."""
        return await self._database.read(work)

    async def _read(self, connection: "Connection | None", work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a query on the given connection, or outside a transaction if there is none."""
        return await self.read_outside_transaction(work) if connection is None else await work(connection)

    # -- rooms --

    async def rooms(self, room_ids: Iterable[str]) -> dict[str, CachedRoom]:
        """Read the current version of those rooms that exist."""
        wanted = [room_id for room_id in room_ids if "\0" not in room_id]  # Postgres accepts no text with NUL
        if not wanted:
            return {}

        async def read(connection: Connection) -> dict[str, CachedRoom]:
            rows = await fetch_rooms(connection, wanted)
            return {row.room_id: await self.room_of(row, connection) for row in rows}

        return await self.read_outside_transaction(read)

    def cached_room(self, room_id: str) -> CachedRoom | None:
        """The room as this process has last seen it; another process may have written to it since."""
        return self._rooms.get(room_id)

    async def version(self, room_id: str) -> RoomVersion:
        """The version of an existing room. It never changes."""
        room = self._rooms.get(room_id) or (await self.rooms([room_id]))[room_id]
        return room.view.version

    async def room_of(self, row: RoomRow, connection: Connection) -> CachedRoom:
        """The cached room if it has the row's generation, otherwise a room made from the row."""
        room = self._rooms.get(row.room_id)
        if room is not None and room.view.generation == row.generation:
            return room
        view_ = RoomView(
            row.room_id, ROOM_VERSIONS[row.version], row.generation, tuple(row.forward_extremities), row.state_group
        )
        joined = await count_joined_by_server(connection, row.room_id)
        # Merges and edges are immutable, so they stay valid after another process has written to the room.
        fresh = CachedRoom(view_, joined) if room is None else CachedRoom(view_, joined, room.merges, room.edges)
        if room is None or room.view.generation < row.generation:
            self._rooms[row.room_id] = fresh
        return fresh

    def cache_room(self, room: CachedRoom) -> None:
        """Called after the commit."""
        for bounded, most in ((room.merges, MAX_MERGES), (room.edges, MAX_EDGES)):
            if len(bounded) > most:
                bounded.clear()
        self._rooms[room.view.room_id] = room

    # -- events --

    async def events(
        self, event_ids: Iterable[EventId], connection: "Connection | None" = None, *, refresh_outliers: bool = False
    ) -> dict[EventId, KnownEvent]:
        """Return those events that are known. With `refresh_outliers`, cached outliers are read again from
        the database, since another process may have inserted them into the graph."""
        found: dict[EventId, KnownEvent] = {}
        wanted = []
        for event_id in event_ids:
            event = self._events.get(event_id)
            if "\0" in event_id:
                continue  # no event has such an id, and Postgres accepts no text with NUL
            if event is None or (refresh_outliers and event.is_outlier):
                wanted.append(event_id)
            else:
                found[event_id] = event
        if wanted:
            for row in await self._read(connection, lambda reading: fetch_events(reading, wanted)):
                found[row.event_id] = event = _known(row)
                self.cache_event(event)
        return found

    def cached_event(self, event_id: EventId) -> KnownEvent | None:
        """The event as this process has last seen it."""
        return self._events.get(event_id)

    def cache_event(self, event: KnownEvent) -> None:
        """Called after the commit."""
        self._events[event.pdu.event_id] = event

    async def auth_edges(
        self, event_ids: Iterable[EventId], connection: Connection
    ) -> dict[EventId, tuple[EventId, ...]]:
        """The auth events of the given events and of all events in their auth chains."""
        rows = await fetch_auth_edges(connection, event_ids)
        return {event_id: tuple(auth_events) for event_id, auth_events in rows}

    # -- states --

    async def acl(self, room: CachedRoom) -> ServerAcl:
        """The server ACL in the room's current state."""
        event_id = (await self.group(room.view.state_group)).state.get(ACL)
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
            group = StateGroup(group_id, rebuild_state(chain), chain[-1].distance)
            self.cache_group(group)
        return group

    def cache_group(self, group: StateGroup) -> None:
        """Called after the commit."""
        self._groups[group.id] = group

    async def next_group_id(self, connection: Connection) -> int:
        while not self._ids:
            self._ids.extend(reversed(await reserve_ids(connection)))
        return self._ids.pop()


def _known(row: StoredEvent) -> KnownEvent:
    version = ROOM_VERSIONS[row.version]
    pdu = make_pdu(decode(row.canonical), row.canonical, row.event_id, version)
    return KnownEvent(pdu, row.verdict, row.refusal, row.state_before, row.state_after)
