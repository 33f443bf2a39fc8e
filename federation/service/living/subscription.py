"""Reading the durable stream from a cursor that is committed together with what was made of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from federation.room_event import StreamedEvent, as_seen
from federation.room_version import DEFAULT_ROOM_VERSION
from federation.service.consumer_lease import ConsumerLease
from federation.service.room_graph import RoomGraph
from federation.service.room_stream import StreamEntry
from storage import consumers
from storage.database import Connection, Database


class Subscription:
    """Nothing has been read before `advance` says so; `next` without it gives the same again."""

    def __init__(self, name: str, term: int, database: Database, graph: RoomGraph) -> None:
        self._name = name
        self._term = term
        self._database = database
        self._graph = graph
        # Until there nothing is left that would be told to anybody, wherever the cursor is.
        self._empty_upto = 0

    async def next(self, limit: int = 100) -> list[StreamedEvent]:
        read = await self._graph.stream.read_on(await self._position(), limit)
        self._empty_upto = read.upto if not read.entries else self._empty_upto
        entries = read.entries
        if not entries:
            entries = list(await self._graph.stream.next(read.upto, limit))
            # It may have been a long wait.
            await self._position()
        return await self._seen(entries)

    async def advance(self, connection: Connection, position: int) -> None:
        await consumers.advance(connection, self._name, self._term, position)

    async def _position(self) -> int:
        async with self._database.transaction(readonly=True) as connection:
            position = await consumers.fetch_position(connection, self._name, self._term)
        return max(position, self._empty_upto)

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
    name: str, lease: ConsumerLease, database: Database, graph: RoomGraph, *, from_now: bool
) -> AsyncIterator[Subscription]:
    async with lease.held(name):
        beginning = await graph.stream.last_position() if from_now else 0
        async with database.transaction() as connection:
            term = await consumers.take_over(connection, name, beginning)
        yield Subscription(name, term, database, graph)
