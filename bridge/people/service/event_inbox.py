"""Handles events of the stream whose handling may wait for other servers, without blocking other rooms.

An event is moved from the stream to a table in one statement with the reader's position, and is handled from
there. Rooms are handled concurrently, the events of a room in their order. An event whose handling fails is
retried, and finally set aside, which `palaver doctor` reports. After a kill the next reader continues with
the table. It may handle an event again, so the handling has to be idempotent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Final

from bridge.matrix.backend import MatrixBackend
from bridge.observability.report import Report
from federation.events.room_event import EventFilter, StreamedEvent, from_json, match_all, to_json
from federation.matrix.canonical_json import decode, encode
from storage import inbox
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.inbox import NewEntry, PendingEntry
from storage.rooms.stream import ReaderReplaced

BATCH: Final = 50
MAX_CONCURRENT: Final = 64
"""Maximum number of events that are handled at the same time. Most of them wait for another server."""
MAX_QUEUES: Final = 1_000
"""Maximum number of queues with a worker. Other queues are found by the next scan of the table."""
HANDLE_TIMEOUT: Final = 60.0
"""Seconds for handling one event."""
MAX_ATTEMPTS: Final = 5
FIRST_DELAY: Final = 1.0
"""Seconds between the first two attempts. It doubles with each attempt."""
SCAN_INTERVAL: Final = 30.0
RETRY_DELAY: Final = 0.5
"""Seconds until the next attempt while the database is unavailable."""
RETENTION: Final = timedelta(days=7)
"""How long an event that was set aside is reported."""
LONGEST_PROBLEM: Final = 500

Handle = Callable[[StreamedEvent], Awaitable[None]]
QueueOf = Callable[[StreamedEvent], str | None]


def room_of(entry: StreamedEvent) -> str | None:
    return entry.event.room_id


class EventInbox:
    """Reads a subscription and passes its events to `handle`, which may receive an event repeatedly.

    `queue_of` is called in the order of the stream and returns the queue of an event. The events of a queue
    are handled in their order. An event without a queue is skipped.
    """

    def __init__(
        self,
        backend: MatrixBackend,
        database: Database,
        name: str,
        handle: Handle,
        report: Report,
        *,
        wanted: EventFilter = match_all,
        queue_of: QueueOf = room_of,
    ) -> None:
        self._backend = backend
        self._database = database
        self._name = name
        self._handle = handle
        self._report = report
        self._wanted = wanted
        self._queue_of = queue_of
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        self._tasks.supervise(f"events for {self._name}", self._read, every=RETRY_DELAY)

    async def close(self) -> None:
        await self._tasks.close()

    async def _read(self) -> None:
        """Move events to the table as long as this process is the reader."""
        try:
            async with self._backend.subscription(self._name, from_now=True, wanted=self._wanted) as subscription:
                _, term, _ = subscription.cursor(0)
                queues = _Queues(self._database, self._name, term, self._handle, self._report)
                queues.start()
                try:
                    while True:
                        entries = await subscription.next(BATCH)
                        position = entries[-1].position
                        moved = [_row(entry, queue) for entry in entries if (queue := self._queue_of(entry))]
                        async with self._database.autocommit() as connection:
                            await inbox.enqueue(connection, subscription.cursor(position), moved)
                        subscription.set_position(position)
                        queues.wake(row.queue for row in moved)
                finally:
                    await queues.close()
        except (ReaderReplaced, ConnectionLost):
            pass  # the next reader continues


class _Queues:
    """The workers for the queued events of one reader in its term."""

    def __init__(self, database: Database, reader: str, term: int, handle: Handle, report: Report) -> None:
        self._database = database
        self._reader = reader
        self._term = term
        self._handle = handle
        self._report = report
        self._tasks = BackgroundTasks(MAX_QUEUES)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        # The queues that have a worker, and whether they received events since the worker last read them.
        self._active: dict[str, bool] = {}

    def start(self) -> None:
        self._tasks.supervise(f"queued events for {self._reader}", self._scan, every=SCAN_INTERVAL)

    async def close(self) -> None:
        await self._tasks.close()

    def wake(self, queues: Iterable[str]) -> None:
        """Start workers for queues that have received events."""
        for queue in queues:
            if queue in self._active:
                self._active[queue] = True
            elif not self._tasks.is_full:
                self._active[queue] = False
                self._tasks.spawn(f"events for {self._reader}", self._work(queue))

    async def _scan(self) -> None:
        try:
            self.wake(
                await self._database.read(lambda connection: inbox.list_queues(connection, self._reader, MAX_QUEUES))
            )
            async with self._database.autocommit() as connection:
                await inbox.prune_set_aside(connection, RETENTION)
        except ConnectionLost:
            pass

    async def _work(self, queue: str) -> None:
        try:
            is_done = False
            while not is_done:
                self._active[queue] = False
                try:
                    await self._empty(queue)
                except ConnectionLost:
                    await asyncio.sleep(RETRY_DELAY)
                else:
                    is_done = not self._active[queue]
        except ReaderReplaced:
            pass  # another process continues with the queue
        finally:
            del self._active[queue]

    async def _empty(self, queue: str) -> None:
        first = partial(inbox.fetch_first, reader=self._reader, term=self._term, queue=queue)
        entry = await self._database.read(first)
        while entry is not None:
            if entry.due_in:
                await asyncio.sleep(entry.due_in)
            async with self._slots:
                failure = await self._try_to_handle(entry)
            async with self._database.autocommit() as connection:
                if failure is None:
                    entry = await inbox.finish(connection, self._reader, self._term, queue, entry.position)
                    continue
                delay = timedelta(seconds=FIRST_DELAY * 2**entry.attempts)
                which = self._reader, self._term, entry.position
                if entry.attempts + 1 < MAX_ATTEMPTS:
                    await inbox.postpone(connection, *which, delay, failure)
                else:
                    await inbox.set_aside(connection, *which, failure)
            entry = await self._database.read(first)

    async def _try_to_handle(self, entry: PendingEntry) -> str | None:
        """Handle the event, and return the error if that fails."""
        limit = asyncio.timeout(HANDLE_TIMEOUT)
        try:
            async with limit:
                await self._handle(_streamed(entry))
        except (ConnectionLost, ReaderReplaced):
            raise
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            problem = f"It took longer than {HANDLE_TIMEOUT:.0f} s." if limit.expired() else str(error)
            self._report(
                f"The event {entry.event_id} in {entry.room_id} could not be handled,"
                f" attempt {entry.attempts + 1} of {MAX_ATTEMPTS}.",
                error,
            )
            return _column(f"{type(error).__name__}: {problem}"[:LONGEST_PROBLEM])
        return None


def _row(entry: StreamedEvent, queue: str) -> NewEntry:
    event = entry.event
    # The value is not nested deeper than the event itself, so it can be encoded.
    value = {**to_json(event), "kind": entry.kind, "invite_state": list(entry.invite_state)}
    body = encode(value, strict=False)
    return NewEntry(entry.position, _column(queue), event.room_id, event.event_id, body)


def _streamed(entry: PendingEntry) -> StreamedEvent:
    value = decode(entry.entry)
    return StreamedEvent(entry.position, value["kind"], from_json(value), tuple(value["invite_state"]))


def _column(text: str) -> str:
    """Return the text without characters that Postgres refuses."""
    return text.replace("\0", "").encode(errors="replace").decode()
