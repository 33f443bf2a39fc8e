"""The durable stream of events, and its readers.

Every event that concerns this node has a position in one order (`storage/rooms/stream.py`). A reader keeps
its position in the database, and commits it together with what it has made of the entries: killed at any
moment, it neither loses nor repeats one. What this process has committed itself its readers get from memory.
Everything else they read from the database; a notification only says that there is something.
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

from federation.events.room_event import StreamedEvent, Wanted, everything
from storage.concurrency import SingleFlight
from storage.database import Connection, Database
from storage.rooms import stream as consumers
from storage.rooms import stream as room_stream

MOST_REMEMBERED: Final = 256
"""Entries that are kept in memory. Readers that wait are woken by each."""
TOPIC: Final = "stream"
"""Of the notifications by which processes tell each other that they have committed something."""
MOST_PASSED: Final = 1_000
"""Positions that a reader may pass over before its cursor follows."""
CONFIRMED: Final = 1.0
"""Seconds after a commit in which a reader need not ask whether another process has taken over. If one has,
the next commit is refused."""
_REDACTION: Final = "m.room.redaction"


@dataclass(frozen=True, slots=True)
class Read:
    """Entries of the stream. `upto`: everything until there has been read, also what concerns nobody any
    more. `is_all`: there was nothing more."""

    entries: Sequence[StreamedEvent]
    upto: int
    is_all: bool = True


class EventStream(ABC):
    """Between `start` and `close` it is notified of what other processes commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._end_subscription: Callable[[], None] = lambda: None
        self._recent: OrderedDict[int, StreamedEvent] = OrderedDict()
        self._looks: SingleFlight[tuple[int, int, int], Read] = SingleFlight()
        self._news = asyncio.Event()
        # How often something was committed, and which time it was when it was last not in memory.
        self._commits = 0
        self._unknown = 0
        self._last = 0

    @abstractmethod
    async def read(self, after: int, limit: int = 100) -> Read:
        """What follows a position, from the database, with redactions applied. An invite that has been
        answered is left out."""

    def start(self) -> None:
        self._end_subscription = self._database.session.subscribe(TOPIC, lambda _: self._look())

    async def close(self) -> None:
        self._end_subscription()
        await self._looks.close()

    def publish(self, entries: Iterable[StreamedEvent] = ()) -> None:
        """This process has committed these entries, of which no redaction has asked for any; or, without
        entries, some that readers have to look up."""
        is_known = False
        for entry in entries:
            # Whether an invite stands is looked up. A redaction changes what is in memory.
            is_known = entry.kind != "invite" and entry.event.type != _REDACTION
            if not is_known:
                break
            self._last = max(self._last, entry.position)
            self._recent[entry.position] = entry
            if len(self._recent) > MOST_REMEMBERED:
                self._recent.popitem(last=False)
        if is_known:
            self._wake()
        else:
            self._look()
        self._database.session.notify(TOPIC)

    def reader(self, after: int, wanted: Wanted = everything) -> "StreamReader":
        return StreamReader(self, after, wanted)

    @contextlib.asynccontextmanager
    async def subscription(
        self, name: str, *, from_now: bool = False, wanted: Wanted = everything
    ) -> AsyncIterator["Subscription"]:
        """Waits until no other process reads under the name. `from_now`: a name that has never read begins
        with what is to come. The block is cancelled, and LeaseLost raised, when another process may read."""
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
        """How often something was committed, as far as is known here."""
        return self._commits

    def recent(self, after: int, limit: int) -> Sequence[StreamedEvent]:
        """What follows a position without a gap, from memory."""
        found: list[StreamedEvent] = []
        while len(found) < limit and (entry := self._recent.get(after + len(found) + 1)) is not None:
            found.append(entry)
        return found

    def may_have_more(self, after: int, looked: int) -> bool:
        """Whether the database may have something beyond a position that it did not have after so many
        commits."""
        return looked < self._unknown or (looked < self._commits and after < self._last)

    async def look(self, after: int, limit: int) -> Read:
        """As `read`; readers at one position share one look."""
        return await self._looks.run((after, limit, self._commits), partial(self.read, after, limit))

    async def committed_since(self, commits: int) -> None:
        """Wait until there may be more."""
        while self._commits == commits:
            await self._news.wait()

    def _look(self) -> None:
        """Something was committed that is not in memory, and that may change what is."""
        self._recent.clear()
        self._unknown = self._commits + 1
        self._wake()

    def _wake(self) -> None:
        self._commits += 1
        self._news.set()
        self._news = asyncio.Event()


class StreamReader:
    """Reads on from a position. `wanted` says which events concern the reader; all others are passed over."""

    def __init__(self, stream: EventStream, after: int, wanted: Wanted = everything) -> None:
        self._stream = stream
        self._wanted = wanted
        self._position = after
        # The end of what it was last given. What follows until its position does not concern the reader.
        self._given = after
        # After how many commits it has last found nothing more in the database.
        self._looked = -1

    @property
    def position(self) -> int:
        return self._position

    def go_to(self, position: int) -> None:
        """Read on from there. It costs nothing where it has read all that was given."""
        if position != self._given:
            self._position = self._given = position
            self._looked = -1

    async def next(self, limit: int = 100, most_passed: float = math.inf) -> Sequence[StreamedEvent]:
        """Waits until there is something. Gives nothing once more than `most_passed` positions have been
        passed over."""
        beginning = self._position
        while True:
            commits = self._stream.commits
            entries = self._stream.recent(self._position, limit)
            if entries:
                self._position = entries[-1].position
            elif self._stream.may_have_more(self._position, self._looked):
                read = await self._stream.look(self._position, limit)
                entries = read.entries
                if read.is_all:
                    self._looked = commits
                self._position = read.upto
            else:
                await self._stream.committed_since(commits)
            found = [entry for entry in entries if self._wanted(entry.event)]
            if found or self._position - beginning > most_passed:
                self._given = found[-1].position if found else self._position
                return found


class Subscription:
    """Reads from a cursor in the database. Nothing has been read before `advance` says so; `next` without it
    gives the same again."""

    def __init__(
        self, stream: EventStream, database: Database, name: str, term: int, wanted: Wanted = everything
    ) -> None:
        self._database = database
        self._name = name
        self._term = term
        self._reader = StreamReader(stream, 0, wanted)
        # Where the cursor is; None when the database has to be asked.
        self._position: int | None = None
        self._confirmed = float("-inf")

    async def next(self, limit: int = 100) -> Sequence[StreamedEvent]:
        """Raises `storage.rooms.stream.ReaderReplaced` when another process reads under the name."""
        if self._position is None:
            self._position = await self._fetch_position()
        self._reader.go_to(self._position)
        while not (entries := await self._reader.next(limit, MOST_PASSED)):
            # So that a successor need not look at all of it again.
            async with self._database.autocommit() as connection:
                await self.advance(connection, self._reader.position)
        if time.monotonic() - self._confirmed > CONFIRMED:
            await self._fetch_position()
        return entries

    async def advance(self, connection: Connection, position: int) -> None:
        """Everything up to here is done. Called in the transaction that commits what was made of it; raises
        `TakenOver`, and then nothing of it may be committed."""
        await consumers.advance(connection, self._name, self._term, position)
        if not self._database.after_commit(connection, partial(self.came_to, position)):
            self._position = None

    def place(self, position: int) -> consumers.ReaderPosition:
        """For a statement that advances by itself. `came_to` follows, if it has done so."""
        return self._name, self._term, position

    def came_to(self, position: int) -> None:
        self._position = position
        self._confirmed = time.monotonic()

    async def _fetch_position(self) -> int:
        position = await self._database.read(
            lambda connection: consumers.fetch_position(connection, self._name, self._term)
        )
        self._confirmed = time.monotonic()
        return position
