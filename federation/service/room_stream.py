"""The durable stream of everything taken in: read from a cursor, and woken when there is more.

A cursor is a position. Whoever keeps it in the same transaction with what it has made of the entries neither
loses nor repeats one, whatever is killed when.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from federation.canonical_json import decode
from federation.pdu import Pdu, view
from federation.room_version import ROOM_VERSIONS
from federation.service.room_store import RoomStore
from federation.stream_tail import Entry, StreamTail
from federation.stripped_state import Stripped
from storage import room_stream
from storage.connecting import ConnectionLost
from storage.database import BROKEN, Connection, Database
from storage.outside_memberships import OutsideMembership, fetch_by_events
from storage.room_stream import Kind, StreamRow

AT_ONCE: Final = 200
"""Entries that are read for all readers together."""
MOST_REMEMBERED: Final = 1 << 20
"""Bytes of the newest ones."""
LONGEST_WAIT: Final = 1.0
"""Seconds after which a reader looks by itself: a process that was killed between commit and notice tells
nobody."""


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """`kind`: `timeline` is new; `state` was known and is now current; `unset` was current and is no more;
    `invite` is one into a room that this server is not in, with what is shown of the room."""

    position: int
    kind: Kind
    pdu: Pdu
    invite_state: tuple[Stripped, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """`upto`: everything until there has been read, also what is told to nobody any more. `is_all`: there was
    nothing more."""

    entries: list[StreamEntry]
    upto: int
    is_all: bool = True


class RoomStream:
    """`start` makes it hear of other processes as well; without, it hears of its own at once."""

    def __init__(self, database: Database, store: RoomStore) -> None:
        self._database = database
        self._store = store
        self._name = secrets.token_hex(8)
        self._woken = asyncio.Event()
        self._to_tell = asyncio.Event()
        self._tail: StreamTail[StreamEntry] = StreamTail(MOST_REMEMBERED)
        self._reading = asyncio.Lock()
        # How often something may have been committed, and of how many of them it has been looked for.
        self._news = 1
        self._looked = 0
        # The last place of what was committed here.
        self._written = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._tell_for_ever()), asyncio.create_task(self._hear_for_ever())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def wake(self, rows: Sequence[StreamRow] = (), is_whole: bool = False) -> None:
        """Something was committed here: these entries, or some that nobody has counted."""
        if rows and self._hand_on(rows):
            self._wake_waiting()
        else:
            self._wake_readers()
        self._to_tell.set()

    async def read(self, after: int, limit: int = 100) -> list[StreamEntry]:
        """What follows a position, as the database has it; nothing, when all has been read."""
        return (await self._read_on(after, limit)).entries

    async def read_on(self, after: int, limit: int = 100) -> Read:
        """Some of it, and how far that is: for a reader who will ask again. An invite that has been answered,
        or has been followed by another one, is told to nobody any more."""
        if after > self._tail.end:
            self._news += 1
            # Whoever is furthest decides where the common part begins; the others catch up with it.
            self._tail.begin_at(after)
        if self._tail.covers(after):
            await self._look_together()
        if not self._tail.covers(after):
            return await self._read_on(after, limit)
        entries = self._tail.after(after, limit)
        return Read(entries, entries[-1].position if entries else self._tail.end)

    def _hand_on(self, rows: Sequence[StreamRow]) -> bool:
        """From memory what takes the very next places: no place is given out twice, so that nothing of
        anybody else can still appear before it. Whether that is all that is known to have been committed;
        what lies behind a gap is read from the database."""
        self._written = max(self._written, rows[-1].position)
        for row in rows:
            known = self._store.remembered_event(row.event_id)
            if known is None or row.position != self._tail.end + 1:
                break
            entry = StreamEntry(row.position, row.kind, known.pdu)
            self._tail.add([Entry(row.position, len(known.pdu.canonical), entry)], row.position)
        return self._tail.end >= self._written

    async def _look_together(self) -> None:
        """Readers are woken together, and wait for the same: one of them looks."""
        wanted = self._news
        if self._looked >= wanted:
            return
        async with self._reading:
            if self._looked < wanted:
                news = self._news
                if await self._lengthen():
                    self._looked = news

    async def _lengthen(self) -> bool:
        """Whether there was nothing more."""
        while True:
            end = self._tail.end
            read = await self._read_on(end, AT_ONCE)
            if self._tail.end == end:
                break
        self._tail.add(
            [Entry(entry.position, len(entry.pdu.canonical), entry) for entry in read.entries], read.upto
        )
        invites = [entry.position for entry in read.entries if entry.kind == "invite"]
        if invites:
            # Whether one still stands, everybody looks up for himself.
            self._tail.begin_at(invites[-1])
        return read.is_all

    async def _read_on(self, after: int, limit: int) -> Read:
        while True:
            rows = await self._database.look(partial(room_stream.read, after=after, limit=limit))
            entries = await self._entries(rows)
            if entries or not rows:
                return Read(entries, rows[-1].position if rows else after, len(rows) < limit)
            after = rows[-1].position

    async def _entries(self, rows: Sequence[StreamRow]) -> list[StreamEntry]:
        invites = [(row.room_id, row.event_id) for row in rows if row.kind == "invite"]
        standing: dict[str, OutsideMembership] = {}
        if invites:
            standing = await self._database.look(lambda connection: fetch_by_events(connection, invites))
        events = await self._store.events([row.event_id for row in rows if row.kind != "invite"])
        return [
            StreamEntry(row.position, row.kind, events[row.event_id].pdu)
            if row.kind != "invite"
            else _invite(row.position, standing[row.event_id])
            for row in rows
            if row.kind != "invite" or row.event_id in standing
        ]

    async def next(self, after: int, limit: int = 100) -> Sequence[StreamEntry]:
        """Some of it, waiting until there is something."""
        while True:
            woken = self._woken
            read = await self.read_on(after, limit)
            if read.entries:
                return read.entries
            after = read.upto
            try:
                async with asyncio.timeout(LONGEST_WAIT):
                    await woken.wait()
            except TimeoutError:
                self._news += 1

    async def last_position(self) -> int:
        """Where to begin for whoever wants only what is to come."""
        return await self._database.look(room_stream.last_position)

    def _wake_readers(self) -> None:
        self._news += 1
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        self._woken.set()
        self._woken = asyncio.Event()

    async def _tell_for_ever(self) -> None:
        """One notice for all that is committed while the one before is on its way."""
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            with contextlib.suppress(ConnectionLost):
                await self._database.look(partial(room_stream.notify, process=self._name))

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
                # One that breaks at this very moment must not hide that this process is to stop.
                with contextlib.suppress(*BROKEN):
                    await connection.remove_listener(room_stream.CHANNEL, self._heard)

    def _heard(self, connection: object, pid: int, channel: str, process: object) -> None:
        if process != self._name:  # what this one has written it knows already
            self._wake_readers()


def _invite(position: int, invite: OutsideMembership) -> StreamEntry:
    pdu = view(decode(invite.event), invite.event, invite.event_id, ROOM_VERSIONS[invite.version])
    return StreamEntry(position, "invite", pdu, tuple(decode(invite.stripped_state)))
