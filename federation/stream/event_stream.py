"""The durable stream of events, and its readers.

Every event that concerns this node has a position in one order (`storage/rooms/stream.py`). A reader stores its
position in the database, in the transaction that commits the results of the entries it has read. So the results
of each entry are committed exactly once, although a killed process reads it again. Entries that this process
has committed reach its readers from a cache; all others are read from the database. A notification says only
that there are new entries.
"""

import asyncio
import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from federation.events.room_event import EventFilter, StreamedEvent, match_all
from storage.concurrency import SingleFlight
from storage.database import Connection, Database
from storage.rooms import stream as consumers
from storage.rooms import stream as room_stream

MAX_CACHED: Final = 256
"""Entries in the cache. Each commit wakes all waiting readers."""
TOPIC: Final = "stream"
"""Topic of the notifications that the processes on one database send each other after a commit."""
MAX_SKIPPED: Final = 1_000
"""Positions that a reader may skip before its stored cursor is advanced."""
CONFIRMED_FOR: Final = 1.0
"""Seconds after a commit during which a reader need not check whether another process has taken over. If one
has, the next commit is refused."""
_REDACTION: Final = "m.room.redaction"


@dataclass(frozen=True, slots=True)
class StreamPage:
    """Entries read from the stream.

    The page covers all positions up to `last_position`, including entries that were left out. `is_complete`:
    the stream had no further entries.
    """

    entries: Sequence[StreamedEvent]
    last_position: int
    is_complete: bool = True


class EventStream(ABC):
    """Publishes committed entries to the readers of this process.

    Between `start` and `close` it is also notified of commits by other processes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._end_subscription: Callable[[], None] = lambda: None
        self._cache: OrderedDict[int, StreamedEvent] = OrderedDict()
        self._reads: SingleFlight[tuple[int, int, int], StreamPage] = SingleFlight()
        self._committed = asyncio.Event()
        self._commits = 0
        # The value of `_commits` at the last commit whose entries were not cached.
        self._last_uncached_commit = 0
        self._last_cached_position = 0

    @abstractmethod
    async def read(self, after: int, limit: int = 100) -> StreamPage:
        """Read the entries after a position from the database, with redactions applied. Invites that have
        been answered are left out."""

    def start(self) -> None:
        self._end_subscription = self._database.session.subscribe(TOPIC, lambda _: self._publish_uncached())

    async def close(self) -> None:
        self._end_subscription()
        await self._reads.close()

    def publish(self, entries: Iterable[StreamedEvent] = ()) -> None:
        """Wake the readers after a commit by this process.

        No redaction may apply to any of the entries. Without entries, readers read the database.
        """
        is_cached = False
        for entry in entries:
            # Readers must read the database for an invite, which may have been answered, and after a
            # redaction, which changes cached events.
            is_cached = entry.kind != "invite" and entry.event.type != _REDACTION
            if not is_cached:
                break
            self._last_cached_position = max(self._last_cached_position, entry.position)
            self._cache[entry.position] = entry
            if len(self._cache) > MAX_CACHED:
                self._cache.popitem(last=False)
        if is_cached:
            self._wake()
        else:
            self._publish_uncached()
        self._database.session.notify(TOPIC)

    def reader(self, after: int, wanted: EventFilter = match_all) -> "StreamReader":
        return StreamReader(self, after, wanted)

    @contextlib.asynccontextmanager
    async def subscription(
        self, name: str, *, from_now: bool = False, wanted: EventFilter = match_all
    ) -> AsyncIterator["Subscription"]:
        """Read under a name with a durable cursor. Waits until no other process reads under that name.

        With `from_now`, a name without a cursor begins after the last committed entry instead of at the
        first. When another process may take over, the block is cancelled and LeaseLost is raised.
        """
        async with self._database.session.lease(f"consumer {name}"):
            beginning = await self.last_position() if from_now else 0
            async with self._database.transaction() as connection:
                term = await consumers.begin_term(connection, name, beginning)
            yield Subscription(self, self._database, name, term, wanted)

    async def last_position(self) -> int:
        return await self._database.read(room_stream.fetch_last_position)

    # -- for its readers --

    @property
    def commits(self) -> int:
        """Number of commits that this process knows of."""
        return self._commits

    def cached_after(self, after: int, limit: int) -> Sequence[StreamedEvent]:
        """The cached entries that follow a position without a gap."""
        found: list[StreamedEvent] = []
        while len(found) < limit and (entry := self._cache.get(after + len(found) + 1)) is not None:
            found.append(entry)
        return found

    def may_have_more(self, after: int, commits: int) -> bool:
        """Whether the database may hold entries after a position that it did not hold after so many
        commits."""
        return commits < self._last_uncached_commit or (commits < self._commits and after < self._last_cached_position)

    async def read_shared(self, after: int, limit: int) -> StreamPage:
        """Like `read`; readers at the same position share one query."""
        return await self._reads.run((after, limit, self._commits), partial(self.read, after, limit))

    async def wait_for_commit(self, commits: int) -> None:
        """Wait until there have been more than so many commits."""
        while self._commits == commits:
            await self._committed.wait()

    def _publish_uncached(self) -> None:
        """Wake the readers after a commit of entries that are not cached and may change cached ones."""
        self._cache.clear()
        self._last_uncached_commit = self._commits + 1
        self._wake()

    def _wake(self) -> None:
        self._commits += 1
        self._committed.set()
        self._committed = asyncio.Event()


class StreamReader:
    """Reads the stream from a position on, and skips events for which `wanted` is false."""

    def __init__(self, stream: EventStream, after: int, wanted: EventFilter = match_all) -> None:
        self._stream = stream
        self._wanted = wanted
        self._position = after
        # Position of the last entry that was returned. The entries between it and `_position` were skipped.
        self._returned = after
        # Number of commits when the database last had nothing more.
        self._complete_at = -1

    @property
    def position(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        """Continue from a position. This is free if the reader has just returned all entries up to there."""
        if position != self._returned:
            self._position = self._returned = position
            self._complete_at = -1

    async def next(self, limit: int = 100, max_skipped: float = math.inf) -> Sequence[StreamedEvent]:
        """Wait for entries and return them. Returns an empty list once it has skipped more than `max_skipped`
        positions."""
        beginning = self._position
        while True:
            commits = self._stream.commits
            entries = self._stream.cached_after(self._position, limit)
            if entries:
                self._position = entries[-1].position
            elif self._stream.may_have_more(self._position, self._complete_at):
                page = await self._stream.read_shared(self._position, limit)
                entries = page.entries
                if page.is_complete:
                    self._complete_at = commits
                self._position = page.last_position
            else:
                await self._stream.wait_for_commit(commits)
            found = [entry for entry in entries if self._wanted(entry.event)]
            if found or self._position - beginning > max_skipped:
                self._returned = found[-1].position if found else self._position
                return found


class Subscription:
    """Reads from a cursor in the database. `advance` moves the cursor, or a statement that is given `cursor()`;
    until then `next` returns the same entries again."""

    def __init__(
        self, stream: EventStream, database: Database, name: str, term: int, wanted: EventFilter = match_all
    ) -> None:
        self._database = database
        self._name = name
        self._term = term
        self._reader = StreamReader(stream, 0, wanted)
        # The cursor's position; None if it has to be read from the database.
        self._position: int | None = None
        self._confirmed = float("-inf")

    async def next(self, limit: int = 100) -> Sequence[StreamedEvent]:
        """Wait for entries and return them.

        Raises `storage.rooms.stream.ReaderReplaced` when another process reads under this name.
        """
        if self._position is None:
            self._position = await self._fetch_position()
        self._reader.seek(self._position)
        while not (entries := await self._reader.next(limit, MAX_SKIPPED)):
            # The next process to read under this name need not read all the skipped entries again.
            async with self._database.autocommit() as connection:
                await self.advance(connection, self._reader.position)
        if time.monotonic() - self._confirmed > CONFIRMED_FOR:
            await self._fetch_position()
        return entries

    async def advance(self, connection: Connection, position: int) -> None:
        """Move the cursor to a position, in the transaction that commits the results of all entries up to
        there.

        Raises `ReaderReplaced`; the transaction must then be rolled back.
        """
        await consumers.advance(connection, self._name, self._term, position)
        if not self._database.after_commit(connection, partial(self.set_position, position)):
            self._position = None

    def cursor(self, position: int) -> consumers.ReaderPosition:
        """The parameters for a statement that moves the cursor itself. Once it has committed, the caller
        calls `set_position`."""
        return self._name, self._term, position

    def set_position(self, position: int) -> None:
        """Record that the cursor has been moved to this position and the move is committed."""
        self._position = position
        self._confirmed = time.monotonic()

    async def _fetch_position(self) -> int:
        position = await self._database.read(
            lambda connection: consumers.fetch_position(connection, self._name, self._term)
        )
        self._confirmed = time.monotonic()
        return position
