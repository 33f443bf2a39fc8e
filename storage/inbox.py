"""Queues of stream events that a reader has read and still has to handle.

A reader whose work may block moves each batch here, in one statement with its new position in the stream, and
handles it afterwards. Each statement has an effect only in the process that currently is the reader
(`storage.rooms.stream`).
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
    """The entries of one `queue` are handled in the order of their positions."""

    position: int
    queue: str
    room_id: str
    event_id: str
    entry: bytes


class PendingEntry(NamedTuple):
    """`due_in`: seconds until the next attempt."""

    position: int
    room_id: str
    event_id: str
    entry: bytes
    attempts: int
    due_in: float


class SetAsideEntry(NamedTuple):
    """An entry whose handling failed for good. `total` is the number of all such entries."""

    reader: str
    room_id: str
    event_id: str
    problem: str
    set_aside_at: datetime
    total: int


async def enqueue(connection: Connection, position: ReaderPosition, entries: Sequence[NewEntry]) -> None:
    """Store the entries and advance the reader to the position. Raises `ReaderReplaced`."""
    columns = [list(column) for column in zip(*entries, strict=True)] if entries else [[], [], [], [], []]
    if not await connection.fetchval(SQL.enqueue, *position, *columns):
        raise ReaderReplaced(position[0])


async def fetch_first(connection: Connection, reader: str, term: int, queue: str) -> PendingEntry | None:
    """Fetch the first pending entry of the queue. Raises `ReaderReplaced`."""
    return _entry(reader, await connection.fetchrow(SQL.fetch_first, reader, term, queue))


async def finish(connection: Connection, reader: str, term: int, queue: str, position: int) -> PendingEntry | None:
    """Delete an entry that has been handled, and fetch the next one of its queue. Raises `ReaderReplaced`."""
    return _entry(reader, await connection.fetchrow(SQL.finish, reader, term, queue, position))


async def postpone(
    connection: Connection, reader: str, term: int, position: int, delay: timedelta, problem: str
) -> None:
    """Record that handling an entry failed; it is retried after `delay`."""
    await connection.execute(SQL.postpone, reader, term, position, delay, problem)


async def set_aside(connection: Connection, reader: str, term: int, position: int, problem: str) -> None:
    """Record that handling an entry failed for good; it is not retried."""
    await connection.execute(SQL.set_aside, reader, term, position, problem)


async def list_queues(connection: Connection, reader: str, limit: int) -> list[str]:
    """The queues with pending entries, the one with the oldest entry first."""
    return [row[0] for row in await connection.fetch(SQL.list_queues, reader, limit)]


async def list_set_aside(connection: Connection, limit: int) -> list[SetAsideEntry]:
    """The entries of all readers that were set aside, newest first."""
    return [SetAsideEntry(*row) for row in await connection.fetch(SQL.list_set_aside, limit)]


async def prune_set_aside(connection: Connection, age: timedelta) -> None:
    await connection.execute(SQL.prune_set_aside, age)


def _entry(reader: str, row: asyncpg.Record | None) -> PendingEntry | None:
    if row is None:
        raise ReaderReplaced(reader)
    return None if row[0] is None else PendingEntry(*row)
