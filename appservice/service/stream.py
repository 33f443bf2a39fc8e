"""What the homeserver has sent, read as the stream of a node that is a homeserver itself is read.

The two share the table of positions, `room_stream`, the cursors of the readers, the lease by which one
process at a time reads under a name, and the way in which readers follow. They part in where the events are:
there in the history that the node keeps for other servers, here in a table of their own,
`appservice_events`, which is emptied behind the readers.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import attrgetter
from typing import ClassVar, Final

from appservice.received_event import REDACTION, from_bytes
from federation.room_event import Foresees, RoomEvent, StreamedEvent, Wanted, everything
from federation.service.consumer_lease import ConsumerLease
from federation.service.followed_stream import FollowedStream, Read
from federation.service.stream_subscription import StreamSubscription
from storage import appservice_events, consumers, room_stream
from storage.appservice_events import KeptEvent
from storage.database import Database
from storage.room_stream import StreamRow

WEIGHT: Final = 4_096
"""Bytes in which an event is kept in memory, about: its size is not known any more."""


class IntakeStream(FollowedStream[StreamedEvent, RoomEvent]):
    """`wake` is called by the intake of this process; between `start` and `close` other processes are told,
    and heard."""

    # A homeserver sends again what was not answered.
    LONGEST_WAIT: ClassVar[float] = 30.0

    def __init__(self, database: Database, lease: ConsumerLease) -> None:
        super().__init__(database, attrgetter("event"), lambda entry: WEIGHT)
        self._lease = lease

    def wake(self, entries: Sequence[StreamedEvent] = ()) -> None:
        """Something was committed here: these entries, or some that nobody has counted."""
        is_simple = bool(entries) and not any(map(self._is_looked_up, entries))
        if not is_simple or not self._hand_on(entries, entries[-1].position, is_whole=True):
            self._wake_readers()
        self._notices.tell()

    async def read(self, after: int, limit: int = 100) -> Read[StreamedEvent]:
        """What follows a position, as the database has it."""
        return await self._read_on(after, limit)

    def _is_looked_up(self, entry: StreamedEvent) -> bool:
        """An invite may have been answered, and what a redaction asks for is not to be read from memory any
        more."""
        return entry.kind == "invite" or entry.event.type == REDACTION

    async def _read_on(self, after: int, limit: int) -> Read[StreamedEvent]:
        rows = await self._database.look(partial(room_stream.read, after=after, limit=limit))
        if not rows:
            return Read([], after)
        event_ids = [row.event_id for row in rows]
        kept = await self._database.look(
            lambda connection: appservice_events.fetch_events(connection, event_ids)
        )
        entries = [_entry(row, kept[row.event_id]) for row in rows if row.event_id in kept]
        found = [entry for entry in entries if entry is not None]
        return Read(found, rows[-1].position, len(rows) < limit)

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
            beginning = await self.last_position() if from_now else 0
            async with self._database.transaction() as connection:
                term = await consumers.take_over(connection, name, beginning)
            yield Subscription(name, term, self._database, self, wanted)


class Subscription(StreamSubscription[StreamedEvent]):
    """`bridge.matrix_stream.Subscription`."""

    def __init__(
        self, name: str, term: int, database: Database, stream: IntakeStream, wanted: Wanted
    ) -> None:
        super().__init__(name, term, database)
        self._stream = stream
        self._wanted = wanted

    async def _follow(self, after: int, limit: int, patience: int) -> Read[StreamedEvent]:
        return await self._stream.follow(after, limit, self._wanted, patience)

    async def _seen(self, read: Read[StreamedEvent]) -> list[StreamedEvent]:
        """Nothing that a redaction asks for is read from memory."""
        return list(read.entries)


def _entry(row: StreamRow, kept: KeptEvent) -> StreamedEvent | None:
    if row.kind == "invite" and kept.is_answered:
        return None
    received = from_bytes(kept.event, is_redacted=kept.is_redacted)
    return StreamedEvent(row.position, row.kind, received.event, received.invite_state)
