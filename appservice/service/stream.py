"""What the homeserver has sent, read as the stream of a node that is a homeserver itself is read.

The two share the table of positions, `room_stream`, the cursors of the readers, and the lease by which one
process at a time reads under a name. They part in where the events are: there in the history that the node
keeps for other servers, here in a table of their own, `appservice_events`, which is emptied behind the
readers.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from appservice.received_event import from_bytes
from federation.room_event import Foresees, StreamedEvent, Wanted, everything
from federation.service.consumer_lease import ConsumerLease
from federation.service.stream_notices import StreamNotices
from storage import appservice_events, consumers, room_stream
from storage.appservice_events import KeptEvent
from storage.database import Connection, Database
from storage.room_stream import StreamRow

LONGEST_WAIT: Final = 30.0
"""Seconds after which a reader looks by itself: a process that was killed between commit and notice tells
nobody."""
MOST_PASSED: Final = 1_000
"""Places in the stream by which the cursor may stay behind what was passed over."""


@dataclass(frozen=True, slots=True)
class Read:
    """`upto`: everything until there has been read, also what is told to nobody any more. None: there was
    nothing."""

    entries: list[StreamedEvent]
    upto: int | None


class IntakeStream:
    """`wake` is called by the intake of this process; between `start` and `close` other processes are told,
    and heard."""

    def __init__(self, database: Database, lease: ConsumerLease) -> None:
        self._database = database
        self._lease = lease
        self._woken = asyncio.Event()
        self._notices = StreamNotices(database, self._wake_readers)

    def start(self) -> None:
        self._notices.start()

    async def close(self) -> None:
        await self._notices.close()

    def wake(self) -> None:
        self._wake_readers()
        self._notices.tell()

    def _wake_readers(self) -> None:
        self._woken.set()
        self._woken = asyncio.Event()

    async def read(self, after: int, limit: int = 100) -> Read:
        """What follows a position. An invite that has been answered is told to nobody any more."""
        rows = await self._database.look(partial(room_stream.read, after=after, limit=limit))
        if not rows:
            return Read([], None)
        event_ids = [row.event_id for row in rows]
        kept = await self._database.look(
            lambda connection: appservice_events.fetch_events(connection, event_ids)
        )
        entries = [_entry(row, kept[row.event_id]) for row in rows if row.event_id in kept]
        return Read([entry for entry in entries if entry is not None], rows[-1].position)

    async def next(self, after: int, limit: int = 100) -> Read:
        """The same, waiting until there is something."""
        while True:
            woken = self._woken
            read = await self.read(after, limit)
            if read.upto is not None:
                return read
            try:
                async with asyncio.timeout(LONGEST_WAIT):
                    await woken.wait()
            except TimeoutError:
                continue

    @asynccontextmanager
    async def subscription(
        self,
        name: str,
        *,
        from_now: bool = False,
        wanted: Wanted = everything,
        foresees: Foresees | None = None,
    ) -> AsyncIterator["Subscription"]:
        """As `bridge.matrix_side.MatrixSide.subscription` says. Nothing is shown before it is written."""
        async with self._lease.held(name):
            beginning = await self._database.look(room_stream.last_position) if from_now else 0
            async with self._database.transaction() as connection:
                term = await consumers.take_over(connection, name, beginning)
            yield Subscription(name, term, self._database, self, wanted)


class Subscription:
    """`bridge.matrix_stream.Subscription`. Nothing has been read before `advance` says so."""

    def __init__(
        self, name: str, term: int, database: Database, stream: IntakeStream, wanted: Wanted
    ) -> None:
        self._name = name
        self._term = term
        self._database = database
        self._stream = stream
        self._wanted = wanted

    async def next(self, limit: int = 100) -> Sequence[StreamedEvent]:
        position = await self._fetch_position()
        after = position
        while True:
            read = await self._stream.next(after, limit)
            found = [entry for entry in read.entries if self._wanted(entry.event)]
            if found:
                # It may have been a long wait, so that another process may read by now.
                await self._fetch_position()
                return found
            assert read.upto is not None, "it was waited for"
            after = read.upto
            if after > position + MOST_PASSED:
                # A successor need not look at all of it again, and it can be forgotten.
                async with self._database.transaction() as connection:
                    await self.advance(connection, after)
                position = after

    async def advance(self, connection: Connection, position: int) -> None:
        await consumers.advance(connection, self._name, self._term, position)

    def place(self, position: int) -> consumers.Place:
        """For a statement that advances to it by itself."""
        return self._name, self._term, position

    def came_to(self, position: int) -> None:
        """The database is asked for it each time."""

    async def _fetch_position(self) -> int:
        """Raises `TakenOver`."""
        return await self._database.look(
            lambda connection: consumers.fetch_position(connection, self._name, self._term)
        )


def _entry(row: StreamRow, kept: KeptEvent) -> StreamedEvent | None:
    if row.kind == "invite" and kept.is_answered:
        return None
    received = from_bytes(kept.event, is_redacted=kept.is_redacted)
    return StreamedEvent(row.position, row.kind, received.event, received.invite_state)
