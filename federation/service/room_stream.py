"""The durable stream of everything taken in: read from a cursor, and woken when there is more.

A cursor is a position. Whoever keeps it in the same transaction with what it has made of the entries neither
loses nor repeats one, whatever is killed when.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation.pdu import Pdu
from federation.service.room_store import RoomStore
from storage import room_stream
from storage.connecting import ConnectionLost
from storage.database import Connection, Database
from storage.room_stream import Kind

LONGEST_WAIT: Final = 1.0
"""Seconds after which a reader looks by itself: a process that was killed between commit and notice tells
nobody."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """`kind`: `timeline` is new; `state` was known and is now current; `unset` was current and is no more."""

    position: int
    kind: Kind
    pdu: Pdu


class RoomStream:
    """`start` makes it hear of other processes as well; without, it hears of its own at once."""

    def __init__(self, database: Database, store: RoomStore) -> None:
        self._database = database
        self._store = store
        self._woken = asyncio.Event()
        self._to_tell = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._tell_for_ever()), asyncio.create_task(self._hear_for_ever())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wake(self) -> None:
        """Something was committed here."""
        self._wake_readers()
        self._to_tell.set()

    async def read(self, after: int, limit: int = 100) -> list[StreamEntry]:
        """What follows a position; nothing, when all has been read."""
        async with self._database.transaction() as connection:
            rows = await room_stream.read(connection, after, limit)
        events = await self._store.events([row.event_id for row in rows])
        return [StreamEntry(row.position, row.kind, events[row.event_id].pdu) for row in rows]

    async def next(self, after: int, limit: int = 100) -> Sequence[StreamEntry]:
        """The same, waiting until there is something."""
        while True:
            woken = self._woken
            entries = await self.read(after, limit)
            if entries:
                return entries
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_WAIT):
                    await woken.wait()

    async def last_position(self) -> int:
        """Where to begin for whoever wants only what is to come."""
        async with self._database.transaction(readonly=True) as connection:
            return await room_stream.last_position(connection)

    def _wake_readers(self) -> None:
        self._woken.set()
        self._woken = asyncio.Event()

    async def _tell_for_ever(self) -> None:
        """One notice for all that is committed while the one before is on its way."""
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            with contextlib.suppress(ConnectionLost):
                async with self._database.transaction() as connection:
                    await room_stream.notify(connection)

    async def _hear_for_ever(self) -> None:
        while True:
            with contextlib.suppress(ConnectionLost):
                async with self._database.connection() as connection:
                    await self._hear(connection)
            await asyncio.sleep(LONGEST_WAIT)

    async def _hear(self, connection: Connection) -> None:
        """Until the connection ends."""
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        await connection.add_listener(room_stream.CHANNEL, self._heard)
        self._wake_readers()  # for what was missed until now
        try:
            await ended.wait()
        finally:
            if not connection.is_closed():
                await connection.remove_listener(room_stream.CHANNEL, self._heard)

    def _heard(self, *_: Any) -> None:
        self._wake_readers()
