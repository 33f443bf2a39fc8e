"""Handles events of the stream whose handling may wait for other servers: each room by itself.

An event is moved from the stream into a table, in one statement with the reader's position, and is handled
from there. Rooms are handled concurrently, the events of a room one after the other. An event that fails is
tried again, and set aside in the end; `palaver doctor` shows it. After a kill the process that reads next
goes on with what is in the table. It may handle an event again, so what follows from an event has to be
idempotent.
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

MOVED_AT_ONCE: Final = 50
HANDLED_AT_ONCE: Final = 64
"""Most of them wait for another server."""
MOST_QUEUES: Final = 1_000
"""That are known to have something. Further ones are found when the table is looked through."""
TIME_LIMIT: Final = 60.0
"""Seconds for handling one event."""
MOST_ATTEMPTS: Final = 5
FIRST_DELAY: Final = 1.0
"""Seconds between the first two attempts. It doubles."""
LOOKED_THROUGH_EVERY: Final = 30.0
AGAIN: Final = 0.5
"""Seconds until it is tried again after the database was away."""
KEPT: Final = timedelta(days=7)
"""For how long it is shown that an event was set aside."""
LONGEST_PROBLEM: Final = 500

Handle = Callable[[StreamedEvent], Awaitable[None]]
QueueOf = Callable[[StreamedEvent], str | None]


def room_of(entry: StreamedEvent) -> str | None:
    return entry.event.room_id


class EventInbox:
    """`handle` may be given an event again. `queue_of` is asked in the order of the stream: events of one
    queue are handled in their order; an event without a queue is passed over."""

    def __init__(
        self,
        side: MatrixBackend,
        database: Database,
        name: str,
        handle: Handle,
        report: Report,
        *,
        wanted: EventFilter = match_all,
        queue_of: QueueOf = room_of,
    ) -> None:
        self._side = side
        self._database = database
        self._name = name
        self._handle = handle
        self._report = report
        self._wanted = wanted
        self._queue_of = queue_of
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        self._tasks.supervise(f"events for {self._name}", self._read, every=AGAIN)

    async def close(self) -> None:
        await self._tasks.close()

    async def _read(self) -> None:
        """As long as this process is the reader."""
        try:
            async with self._side.subscription(
                self._name, from_now=True, wanted=self._wanted
            ) as subscription:
                _, term, _ = subscription.cursor(0)
                queues = _Queues(self._database, self._name, term, self._handle, self._report)
                queues.start()
                try:
                    while True:
                        entries = await subscription.next(MOVED_AT_ONCE)
                        position = entries[-1].position
                        moved = [_row(entry, queue) for entry in entries if (queue := self._queue_of(entry))]
                        async with self._database.autocommit() as connection:
                            await inbox.enqueue(connection, subscription.cursor(position), moved)
                        subscription.set_position(position)
                        queues.wake(row.queue for row in moved)
                finally:
                    await queues.close()
        except (ReaderReplaced, ConnectionLost):
            pass  # whoever reads next goes on


class _Queues:
    """What waits for one reader, in its term."""

    def __init__(self, database: Database, reader: str, term: int, handle: Handle, report: Report) -> None:
        self._database = database
        self._reader = reader
        self._term = term
        self._handle = handle
        self._report = report
        self._tasks = BackgroundTasks(MOST_QUEUES)
        self._slots = asyncio.Semaphore(HANDLED_AT_ONCE)
        # Those that are worked on, and whether something has come since they were looked at.
        self._worked_on: dict[str, bool] = {}

    def start(self) -> None:
        self._tasks.supervise(
            f"events that wait for {self._reader}", self._look_through, every=LOOKED_THROUGH_EVERY
        )

    async def close(self) -> None:
        await self._tasks.close()

    def wake(self, queues: Iterable[str]) -> None:
        """There is something in them."""
        for queue in queues:
            if queue in self._worked_on:
                self._worked_on[queue] = True
            elif not self._tasks.is_full:
                self._worked_on[queue] = False
                self._tasks.spawn(f"events for {self._reader}", self._work(queue))

    async def _look_through(self) -> None:
        try:
            self.wake(
                await self._database.read(
                    lambda connection: inbox.list_queues(connection, self._reader, MOST_QUEUES)
                )
            )
            async with self._database.autocommit() as connection:
                await inbox.prune_set_aside(connection, KEPT)
        except ConnectionLost:
            pass

    async def _work(self, queue: str) -> None:
        try:
            is_done = False
            while not is_done:
                self._worked_on[queue] = False
                try:
                    await self._empty(queue)
                except ConnectionLost:
                    await asyncio.sleep(AGAIN)
                else:
                    is_done = not self._worked_on[queue]
        except ReaderReplaced:
            pass  # another process works on it
        finally:
            del self._worked_on[queue]

    async def _empty(self, queue: str) -> None:
        first = partial(inbox.fetch_first, reader=self._reader, term=self._term, queue=queue)
        entry = await self._database.read(first)
        while entry is not None:
            if entry.due_in:
                await asyncio.sleep(entry.due_in)
            async with self._slots:
                failure = await self._failure(entry)
            async with self._database.autocommit() as connection:
                if failure is None:
                    entry = await inbox.finish(connection, self._reader, self._term, queue, entry.position)
                    continue
                delay = timedelta(seconds=FIRST_DELAY * 2**entry.attempts)
                which = self._reader, self._term, entry.position
                if entry.attempts + 1 < MOST_ATTEMPTS:
                    await inbox.postpone(connection, *which, delay, failure)
                else:
                    await inbox.set_aside(connection, *which, failure)
            entry = await self._database.read(first)

    async def _failure(self, entry: PendingEntry) -> str | None:
        """None if it has been handled."""
        limit = asyncio.timeout(TIME_LIMIT)
        try:
            async with limit:
                await self._handle(_streamed(entry))
        except (ConnectionLost, ReaderReplaced):
            raise
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            problem = f"It took longer than {TIME_LIMIT:.0f} s." if limit.expired() else str(error)
            self._report(
                f"The event {entry.event_id} in {entry.room_id} was not handled,"
                f" attempt {entry.attempts + 1} of {MOST_ATTEMPTS}.",
                error,
            )
            return _column(f"{type(error).__name__}: {problem}"[:LONGEST_PROBLEM])
        return None


def _row(entry: StreamedEvent, queue: str) -> NewEntry:
    event = entry.event
    # No deeper than the event itself, which could be encoded.
    value = {**to_json(event), "kind": entry.kind, "invite_state": list(entry.invite_state)}
    body = encode(value, strict=False)
    return NewEntry(entry.position, _column(queue), event.room_id, event.event_id, body)


def _streamed(entry: PendingEntry) -> StreamedEvent:
    value = decode(entry.entry)
    return StreamedEvent(entry.position, value["kind"], from_json(value), tuple(value["invite_state"]))


def _column(text: str) -> str:
    """As Postgres takes it."""
    return text.replace("\0", "").encode(errors="replace").decode()
