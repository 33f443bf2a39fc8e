"""Reading the durable stream from a cursor that is committed together with what was made of it."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from federation.room_event import StreamedEvent, Wanted, as_seen, everything
from federation.room_version import DEFAULT_ROOM_VERSION
from federation.service.consumer_lease import ConsumerLease
from federation.service.room_graph import RoomGraph
from federation.service.room_stream import StreamEntry
from storage import consumers
from storage.database import Connection, Database

MOST_PASSED: Final = 1_000
"""Places in the stream by which the cursor may stay behind what was passed over."""
CONFIRMED: Final = 1.0
"""Seconds after a commit in which a reader takes itself for the reader. What another one has read meanwhile
is refused at the next commit, as it is when that one comes a moment after having been asked for."""


class Subscription:
    """Nothing has been read before `advance` says so; `next` without it gives the same again. What is not
    `wanted` is passed over."""

    def __init__(
        self, name: str, term: int, database: Database, graph: RoomGraph, wanted: Wanted = everything
    ) -> None:
        self._name = name
        self._term = term
        self._database = database
        self._graph = graph
        self._wanted = wanted
        # Where the cursor is; None when the database has to be asked.
        self._position: int | None = None
        # Until there is nothing that this reader would be told, wherever the cursor is.
        self._empty_upto = 0
        # When Postgres last said that this is the reader.
        self._confirmed = float("-inf")

    async def next(self, limit: int = 100) -> list[StreamedEvent]:
        if self._position is None:
            self._position = await self._fetch_position()
        wanted: list[StreamEntry] = []
        while not wanted:
            entries = await self._read_on(max(self._position, self._empty_upto), limit)
            wanted = [entry for entry in entries if self._wanted(entry.pdu)]
            if not wanted:
                await self._pass_over(entries[-1].position)
        if time.monotonic() - self._confirmed > CONFIRMED:
            # It may have been a long wait, so that another process may read by now.
            await self._fetch_position()
        return await self._seen(wanted)

    async def _read_on(self, after: int, limit: int) -> Sequence[StreamEntry]:
        read = await self._graph.stream.read_on(after, limit)
        if read.entries:
            return read.entries
        self._empty_upto = read.upto
        return await self._graph.stream.next(read.upto, limit)

    async def _pass_over(self, position: int) -> None:
        """The cursor follows now and then, so that a successor need not look at all of it again."""
        self._empty_upto = position
        if position > (self._position or 0) + MOST_PASSED:
            async with self._database.transaction() as connection:
                await self.advance(connection, position)

    async def advance(self, connection: Connection, position: int) -> None:
        await consumers.advance(connection, self._name, self._term, position)
        if not self._database.after_commit(connection, partial(self.came_to, position)):
            self._position = None

    def place(self, position: int) -> consumers.Place:
        """For a statement that advances to it by itself; when it has, `came_to` says so."""
        return self._name, self._term, position

    def came_to(self, position: int) -> None:
        self._position = position
        self._confirmed = time.monotonic()

    async def _fetch_position(self) -> int:
        """Raises `TakenOver`."""
        position = await self._database.look(
            lambda connection: consumers.fetch_position(connection, self._name, self._term)
        )
        self._confirmed = time.monotonic()
        return position

    async def _seen(self, entries: list[StreamEntry]) -> list[StreamedEvent]:
        shown = await self._graph.shown_to_people([entry.pdu for entry in entries])
        seen = []
        for entry, pdu in zip(entries, shown, strict=True):
            # An invite's room is not known here; nothing of it is read that its version decides.
            version = (
                DEFAULT_ROOM_VERSION
                if entry.kind == "invite"
                else await self._graph.version(entry.pdu.room_id)
            )
            event = as_seen(pdu, entry.pdu, version)
            seen.append(StreamedEvent(entry.position, entry.kind, event, entry.invite_state))
        return seen


@asynccontextmanager
async def subscribed(
    name: str,
    lease: ConsumerLease,
    database: Database,
    graph: RoomGraph,
    *,
    from_now: bool,
    wanted: Wanted = everything,
) -> AsyncIterator[Subscription]:
    async with lease.held(name):
        beginning = await graph.stream.last_position() if from_now else 0
        async with database.transaction() as connection:
            term = await consumers.take_over(connection, name, beginning)
        yield Subscription(name, term, database, graph, wanted)
