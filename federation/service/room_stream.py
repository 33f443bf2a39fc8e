"""The durable stream of everything taken in: read from a cursor, and woken when there is more.

A cursor is a position. Whoever keeps it in the same transaction with what it has made of the entries neither
loses nor repeats one, whatever is killed when.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from federation.canonical_json import decode
from federation.pdu import Pdu, view
from federation.room_event import Wanted, everything
from federation.room_version import ROOM_VERSIONS
from federation.service.room_store import RoomStore
from federation.service.stream_notices import StreamNotices
from federation.stream_tail import Entry, StreamTail
from federation.stripped_state import Stripped
from storage import room_stream
from storage.database import Database
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
    nothing more. `is_whole`: when the entries were committed, a moment ago, no redaction asked for any."""

    entries: Sequence[StreamEntry]
    upto: int
    is_all: bool = True
    is_whole: bool = False


@dataclass(eq=False, slots=True)
class _Waiting:
    """A reader that has read all there is, until `upto`. It is not told that there was something for others
    before there is more of it than until `patience`."""

    upto: int
    limit: int
    wanted: Wanted
    patience: int
    woken: "asyncio.Future[Read | None]"
    foresees: Callable[[Pdu], None] | None = None

    def offer(self, after: int, entries: Sequence[StreamEntry], is_whole: bool) -> bool:
        """All that follows a position. Whether the reader wants any of it, or has to look by itself."""
        if self.upto != after:
            return self.wake(None)
        try:
            wanted = [entry for entry in entries if self.wanted(entry.pdu)]
        except Exception:
            # It is the reader's mistake, and not of whoever has committed: it comes upon it by itself.
            return self.wake(None)
        self.upto = entries[-1].position
        if len(wanted) > self.limit:
            wanted = wanted[: self.limit]
            return self.wake(Read(wanted, wanted[-1].position, is_whole=is_whole))
        if wanted or self.upto > self.patience:
            return self.wake(Read(wanted, self.upto, is_whole=is_whole))
        return False

    def foresee(self, pdu: Pdu) -> None:
        """What may come of what it waits for."""
        if self.foresees is None or self.woken.done():
            return
        try:
            if self.wanted(pdu):
                self.foresees(pdu)
        except Exception:
            # The same mistake is made when it comes, and is told of then; perhaps it does not.
            return

    def wake(self, read: Read | None) -> bool:
        """With what there is to read; with nothing, it has to look."""
        if not self.woken.done():
            self.woken.set_result(read)
        return True


class RoomStream:
    """`start` makes it hear of other processes as well; without, it hears of its own at once."""

    def __init__(self, database: Database, store: RoomStore) -> None:
        self._database = database
        self._store = store
        self._notices = StreamNotices(database, self._wake_readers)
        self._waiting: list[_Waiting] = []
        # When they look by themselves, as long as there are any.
        self._timer: asyncio.TimerHandle | None = None
        self._tail: StreamTail[StreamEntry] = StreamTail(MOST_REMEMBERED)
        self._reading = asyncio.Lock()
        # How often something may have been committed, and of how many of them it has been looked for.
        self._news = 1
        self._looked = 0
        # The last place of what was committed here.
        self._written = 0

    def start(self) -> None:
        self._notices.start()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._notices.close()

    def wake(self, rows: Sequence[StreamRow] = (), is_whole: bool = False) -> None:
        """Something was committed here: these entries, or some that nobody has counted. `is_whole`: no
        redaction asks for any of them."""
        if not rows or not self._hand_on(rows, is_whole):
            self._wake_readers()
        self._notices.tell()

    def foresee(self, pdu: Pdu) -> None:
        """It is being written. Whoever waits for such an event may look at it meanwhile."""
        for one in self._waiting:
            one.foresee(pdu)

    async def read(self, after: int, limit: int = 100) -> Sequence[StreamEntry]:
        """What follows a position, as the database has it; nothing, when all has been read."""
        return (await self._read_on(after, limit)).entries

    async def read_on(self, after: int, limit: int = 100) -> Read:
        """Some of it, and how far that is: for a reader who will ask again. An invite that has been answered,
        or has been followed by another one, is told to nobody any more."""
        tail = self._tail
        if after > tail.end:
            self._news += 1
            # Whoever is furthest decides where the common part begins; the others catch up with it.
            tail.begin_at(after)
        if self._looked < self._news and after >= tail.begin:
            await self._look_together()
        if after < tail.begin:
            return await self._read_on(after, limit)
        entries = tail.after(after, limit)
        return Read(entries, entries[-1].position if entries else tail.end)

    def _hand_on(self, rows: Sequence[StreamRow], is_whole: bool) -> bool:
        """From memory what takes the very next places: no place is given out twice, so that nothing of
        anybody else can still appear before it. Whether that is all that is known to have been committed;
        what lies behind a gap is read from the database."""
        self._written = max(self._written, rows[-1].position)
        tail = self._tail
        begin = tail.end
        added = []
        for row in rows:
            known = self._store.remembered_event(row.event_id)
            if known is None or row.position != tail.end + 1:
                break
            entry = StreamEntry(row.position, row.kind, known.pdu)
            tail.add([Entry(row.position, len(known.pdu.canonical), entry)], row.position)
            added.append(entry)
        if added:
            self._waiting = [one for one in self._waiting if not one.offer(begin, added, is_whole)]
        return tail.end >= self._written

    async def _look_together(self) -> None:
        """Readers are woken together, and wait for the same: one of them looks."""
        wanted = self._news
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
        while not (read := await self.follow(after, limit, everything, 0)).entries:
            after = read.upto
        return read.entries

    async def follow(
        self,
        after: int,
        limit: int,
        wanted: Wanted,
        patience: int,
        foresees: Callable[[Pdu], None] | None = None,
    ) -> Read:
        """What a reader wants of it, waiting until there is something; or nothing, once more than `patience`
        places have been passed over. `foresees` is shown meanwhile what may come of it."""
        tail = self._tail
        patience += after
        while True:
            if after != tail.end or self._looked < self._news:
                before = self._news, tail.end
                read = await self.read_on(after, limit)
                entries = [entry for entry in read.entries if wanted(entry.pdu)]
                if entries or read.upto > patience:
                    return Read(entries, read.upto)
                if read.upto != after or before != (self._news, tail.end):
                    after = read.upto
                    continue
            loop = asyncio.get_running_loop()
            if self._timer is None:
                self._timer = loop.call_later(LONGEST_WAIT, self._look_again)
            waiting = _Waiting(after, limit, wanted, patience, loop.create_future(), foresees)
            self._waiting.append(waiting)
            handed = await waiting.woken
            if handed is not None:
                return handed
            after = waiting.upto

    async def last_position(self) -> int:
        """Where to begin for whoever wants only what is to come."""
        return await self._database.look(room_stream.last_position)

    def _wake_readers(self) -> None:
        """They have to look."""
        self._news += 1
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.wake(None)

    def _look_again(self) -> None:
        self._timer = None
        if self._waiting:
            self._wake_readers()


def _invite(position: int, invite: OutsideMembership) -> StreamEntry:
    pdu = view(decode(invite.event), invite.event, invite.event_id, ROOM_VERSIONS[invite.version])
    return StreamEntry(position, "invite", pdu, tuple(decode(invite.stripped_state)))
