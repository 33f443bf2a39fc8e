"""Reading the durable stream from a cursor that is committed together with what was made of it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from federation.pdu import Pdu
from federation.room_event import Foresees, StreamedEvent, Wanted, as_seen, everything
from federation.room_version import DEFAULT_ROOM_VERSION
from federation.service.consumer_lease import ConsumerLease
from federation.service.room_graph import RoomGraph
from federation.service.room_stream import Read
from storage import consumers
from storage.database import Connection, Database

MOST_PASSED: Final = 1_000
"""Places in the stream that may be passed over before the cursor follows."""
CONFIRMED: Final = 1.0
"""Seconds after a commit in which a reader takes itself for the reader. What another one has read meanwhile
is refused at the next commit, as it is when that one comes a moment after having been asked for."""
_REDACTION: Final = "m.room.redaction"


class Subscription:
    """Nothing has been read before `advance` says so; `next` without it gives the same again. What is not
    `wanted` is passed over. `foresees` is shown what this process is just writing."""

    def __init__(
        self,
        name: str,
        term: int,
        database: Database,
        graph: RoomGraph,
        wanted: Wanted = everything,
        foresees: Foresees | None = None,
    ) -> None:
        self._name = name
        self._term = term
        self._database = database
        self._graph = graph
        self._wanted = wanted
        self._foresees = foresees
        self._foresee = None if foresees is None else self._show
        # Where the cursor is; None when the database has to be asked.
        self._position: int | None = None
        # When Postgres last said that this is the reader.
        self._confirmed = float("-inf")

    async def next(self, limit: int = 100) -> list[StreamedEvent]:
        while True:
            if self._position is None:
                self._position = await self._fetch_position()
            read = await self._graph.stream.follow(
                self._position, limit, self._wanted, MOST_PASSED, self._foresee
            )
            if read.entries:
                break
            await self._pass_over(read.upto)
        if time.monotonic() - self._confirmed > CONFIRMED:
            # It may have been a long wait, so that another process may read by now.
            await self._fetch_position()
        return await self._seen(read)

    def _show(self, pdu: Pdu) -> None:
        """Only messages are foreseen, of which no room version decides how they are read."""
        assert self._foresees is not None, "otherwise nothing is shown"
        self._foresees(as_seen(pdu, pdu, DEFAULT_ROOM_VERSION))

    async def _pass_over(self, position: int) -> None:
        """Now and then, so that a successor need not look at all of it again."""
        async with self._database.statements() as connection:
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

    async def _seen(self, read: Read) -> list[StreamedEvent]:
        shown = [entry.pdu for entry in read.entries]
        if not read.is_whole:
            shown = await self._graph.shown_to_people(shown)
        seen = []
        for entry, pdu in zip(read.entries, shown, strict=True):
            # Of nothing else something is read that its room's version decides; of an invite's room it is not
            # known here.
            is_redaction = pdu.type == _REDACTION
            version = await self._graph.version(pdu.room_id) if is_redaction else DEFAULT_ROOM_VERSION
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
    foresees: Foresees | None = None,
) -> AsyncIterator[Subscription]:
    async with lease.held(name):
        beginning = await graph.stream.last_position() if from_now else 0
        async with database.transaction() as connection:
            term = await consumers.take_over(connection, name, beginning)
        yield Subscription(name, term, database, graph, wanted, foresees)
