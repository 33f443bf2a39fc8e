"""Following a durable stream: whoever has read all of it waits, and is given what is committed next.

Readers have the newest part of it in common, which one of them reads for all. What this process has committed
itself they get from memory, if it takes the very next places: no place is given out twice, so that nothing of
anybody else can still appear before it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from federation.room_event import EventHead, Wanted, everything
from federation.service.stream_notices import StreamNotices
from federation.stream_tail import Entry, StreamTail
from storage import room_stream
from storage.database import Database

AT_ONCE: Final = 200
"""Entries that are read for all readers together."""
MOST_REMEMBERED: Final = 1 << 20
"""Bytes of the newest ones."""


class Placed(Protocol):
    """Something in a stream."""

    @property
    def position(self) -> int: ...


E = TypeVar("E", bound=Placed)
H = TypeVar("H", bound=EventHead)


@dataclass(frozen=True, slots=True)
class Read(Generic[E]):
    """`upto`: everything until there has been read, also what is told to nobody any more. `is_all`: there was
    nothing more. `is_whole`: when the entries were committed, a moment ago, no redaction asked for any."""

    entries: Sequence[E]
    upto: int
    is_all: bool = True
    is_whole: bool = False


@dataclass(eq=False, slots=True)
class _Waiting(Generic[E, H]):
    """A reader that has read all there is, until `upto`. It is not told that there was something for others
    before there is more of it than until `patience`."""

    upto: int
    limit: int
    head: Callable[[E], H]
    wanted: Wanted
    patience: int
    woken: "asyncio.Future[Read[E] | None]"
    foresees: Callable[[H], None] | None = None

    def offer(self, after: int, entries: Sequence[E], is_whole: bool) -> bool:
        """All that follows a position. Whether the reader wants any of it, or has to look by itself."""
        if self.upto != after:
            return self.wake(None)
        try:
            wanted = [entry for entry in entries if self.wanted(self.head(entry))]
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

    def foresee(self, head: H) -> None:
        """What may come of what it waits for."""
        if self.foresees is None or self.woken.done():
            return
        try:
            if self.wanted(head):
                self.foresees(head)
        except Exception:
            # The same mistake is made when it comes, and is told of then; perhaps it does not.
            return

    def wake(self, read: Read[E] | None) -> bool:
        """With what there is to read; with nothing, it has to look."""
        if not self.woken.done():
            self.woken.set_result(read)
        return True


class FollowedStream(ABC, Generic[E, H]):
    """`start` makes it hear of other processes as well; without, it hears of its own at once. `head` is by
    what of an entry a reader tells whether he wants it, `weight` how many bytes it has, about."""

    LONGEST_WAIT: ClassVar[float] = 1.0
    """Seconds after which a reader looks by itself: a process that was killed between commit and notice tells
    nobody."""

    def __init__(self, database: Database, head: Callable[[E], H], weight: Callable[[E], int]) -> None:
        self._database = database
        self._head = head
        self._weight = weight
        self._notices = StreamNotices(database, self._wake_readers)
        self._waiting: list[_Waiting[E, H]] = []
        # When they look by themselves, as long as there are any.
        self._timer: asyncio.TimerHandle | None = None
        self._tail: StreamTail[E] = StreamTail(MOST_REMEMBERED)
        self._reading = asyncio.Lock()
        # How often something may have been committed, and of how many of them it has been looked for.
        self._news = 1
        self._looked = 0
        # The last place of what was committed here.
        self._written = 0

    @abstractmethod
    async def _read_on(self, after: int, limit: int) -> Read[E]:
        """Some of what follows a position, as the database has it, and how far that is."""

    @abstractmethod
    def _is_looked_up(self, entry: E) -> bool:
        """Whether it and what comes before it is read from the database by each reader for himself."""

    def start(self) -> None:
        self._notices.start()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._notices.close()

    def foresee(self, head: H) -> None:
        """It is being written. Whoever waits for such an event may look at it meanwhile."""
        for one in self._waiting:
            one.foresee(head)

    async def read_on(self, after: int, limit: int = 100) -> Read[E]:
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

    async def follow(
        self,
        after: int,
        limit: int,
        wanted: Wanted,
        patience: int,
        foresees: Callable[[H], None] | None = None,
    ) -> Read[E]:
        """What a reader wants of it, waiting until there is something; or nothing, once more than `patience`
        places have been passed over. `foresees` is shown meanwhile what may come of it."""
        tail, head = self._tail, self._head
        patience += after
        while True:
            if after != tail.end or self._looked < self._news:
                before = self._news, tail.end
                read = await self.read_on(after, limit)
                entries = [entry for entry in read.entries if wanted(head(entry))]
                if entries or read.upto > patience:
                    return Read(entries, read.upto)
                if read.upto != after or before != (self._news, tail.end):
                    after = read.upto
                    continue
            loop = asyncio.get_running_loop()
            if self._timer is None:
                self._timer = loop.call_later(self.LONGEST_WAIT, self._look_again)
            waiting = _Waiting(after, limit, head, wanted, patience, loop.create_future(), foresees)
            self._waiting.append(waiting)
            handed = await waiting.woken
            if handed is not None:
                return handed
            after = waiting.upto

    async def next(self, after: int, limit: int = 100) -> Sequence[E]:
        """Some of it, waiting until there is something."""
        while not (read := await self.follow(after, limit, everything, 0)).entries:
            after = read.upto
        return read.entries

    async def last_position(self) -> int:
        """Where to begin for whoever wants only what is to come."""
        return await self._database.look(room_stream.last_position)

    def _hand_on(self, entries: Iterable[E], written: int, is_whole: bool) -> bool:
        """From memory what takes the very next places. Whether that is all that is known to have been
        committed, of which `written` is the last here; what lies behind a gap is read from the database."""
        self._written = max(self._written, written)
        tail = self._tail
        begin = tail.end
        added = []
        for entry in entries:
            if entry.position != tail.end + 1:
                break
            tail.add([Entry(entry.position, self._weight(entry), entry)], entry.position)
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
            [Entry(entry.position, self._weight(entry), entry) for entry in read.entries], read.upto
        )
        looked_up = [entry.position for entry in read.entries if self._is_looked_up(entry)]
        if looked_up:
            self._tail.begin_at(looked_up[-1])
        return read.is_all

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
