"""Events that a reader of the stream has taken, and that it still has to handle.

A reader whose work may wait for others moves what it reads here, in one statement with its position, and
handles it afterwards. Every statement holds only for the process that is the reader (`storage.rooms.stream`).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import asyncpg

from storage.database import Connection
from storage.rooms.stream import ReaderPosition, ReaderReplaced
from storage.statements import load

SQL = load("storage", "inbox.sql")


class NewEntry(NamedTuple):
    """Entries of one `queue` are handled in the order of their positions."""

    position: int
    queue: str
    room_id: str
    event_id: str
    entry: bytes


class PendingEntry(NamedTuple):
    """`due_in`: seconds until it may be tried again."""

    position: int
    room_id: str
    event_id: str
    entry: bytes
    attempts: int
    due_in: float


class SetAsideEntry(NamedTuple):
    """An entry that could not be handled. `total` is the number of all of them."""

    reader: str
    room_id: str
    event_id: str
    problem: str
    set_aside_at: datetime
    total: int


async def enqueue(connection: Connection, place: ReaderPosition, entries: Sequence[NewEntry]) -> None:
    """The reader has come to the place. Raises `ReaderReplaced`."""
    columns = [list(column) for column in zip(*entries, strict=True)] if entries else [[], [], [], [], []]
    if not await connection.fetchval(SQL.enqueue, *place, *columns):
        raise ReaderReplaced(place[0])


async def fetch_first(connection: Connection, reader: str, term: int, queue: str) -> PendingEntry | None:
    """Of those that wait. Raises `ReaderReplaced`."""
    return _entry(reader, await connection.fetchrow(SQL.fetch_first, reader, term, queue))


async def finish(
    connection: Connection, reader: str, term: int, queue: str, position: int
) -> PendingEntry | None:
    """It has been handled; gives the next one of the queue. Raises `ReaderReplaced`."""
    return _entry(reader, await connection.fetchrow(SQL.finish, reader, term, queue, position))


async def postpone(
    connection: Connection, reader: str, term: int, position: int, delay: timedelta, problem: str
) -> None:
    """It failed, and is tried again."""
    await connection.execute(SQL.postpone, reader, term, position, delay, problem)


async def set_aside(connection: Connection, reader: str, term: int, position: int, problem: str) -> None:
    """It failed, and is not tried again."""
    await connection.execute(SQL.set_aside, reader, term, position, problem)


async def list_queues(connection: Connection, reader: str, limit: int) -> list[str]:
    """In which something waits, those that wait for longest first."""
    return [row[0] for row in await connection.fetch(SQL.list_queues, reader, limit)]


async def list_set_aside(connection: Connection, limit: int) -> list[SetAsideEntry]:
    """Of all readers, the newest first."""
    return [SetAsideEntry(*row) for row in await connection.fetch(SQL.list_set_aside, limit)]


async def prune_set_aside(connection: Connection, age: timedelta) -> None:
    await connection.execute(SQL.prune_set_aside, age)


def _entry(reader: str, row: asyncpg.Record | None) -> PendingEntry | None:
    if row is None:
        raise ReaderReplaced(reader)
    return None if row[0] is None else PendingEntry(*row)
