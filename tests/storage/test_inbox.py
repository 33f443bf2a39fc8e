"""Queues of stream events that a reader still has to handle."""

from datetime import timedelta

import pytest

from storage.database import Database
from storage.inbox import (
    NewEntry,
    enqueue,
    fetch_first,
    finish,
    list_queues,
    list_set_aside,
    postpone,
    prune_set_aside,
    set_aside,
)
from storage.rooms.stream import ReaderReplaced, begin_term, list_cursors

NAME = "people"


def entry(position: int, queue: str) -> NewEntry:
    return NewEntry(position, queue, queue, f"${position}", b"{}")


async def test_entries_and_the_position_are_written_together(database: Database) -> None:
    """Each queue is in the order of the stream; an entry that is queued again does not change."""
    async with database.autocommit() as connection:
        term = await begin_term(connection, NAME, 0)
        await enqueue(connection, (NAME, term, 3), [entry(1, "!a"), entry(2, "!b"), entry(3, "!a")])
        assert await list_cursors(connection) == {NAME: 3}
        await enqueue(connection, (NAME, term, 3), [entry(3, "!a")])
        assert await list_queues(connection, NAME, 9) == ["!a", "!b"]
        first = await fetch_first(connection, NAME, term, "!a")
        assert first is not None
        assert (first.position, first.entry, first.attempts, first.due_in) == (1, b"{}", 0, 0.0)
        following = await finish(connection, NAME, term, "!a", 1)
        assert following is not None
        assert following.position == 3
        assert await finish(connection, NAME, term, "!a", 3) is None
        assert await fetch_first(connection, NAME, term, "!a") is None
        assert await list_queues(connection, NAME, 9) == ["!b"]
        await enqueue(connection, (NAME, term, 9), [])
        assert await list_cursors(connection) == {NAME: 9}


async def test_failed_entries_are_postponed_and_set_aside(database: Database) -> None:
    """An entry that was set aside does not block its queue, and its content is deleted."""
    async with database.autocommit() as connection:
        term = await begin_term(connection, NAME, 0)
        await enqueue(connection, (NAME, term, 2), [entry(1, "!a"), entry(2, "!a")])
        await postpone(connection, NAME, term, 1, timedelta(seconds=60), "x")
        first = await fetch_first(connection, NAME, term, "!a")
        assert first is not None
        assert (first.position, first.attempts) == (1, 1)
        assert 50 < first.due_in <= 60
        await set_aside(connection, NAME, term, 1, "y")
        first = await fetch_first(connection, NAME, term, "!a")
        assert first is not None
        assert first.position == 2
        [one] = await list_set_aside(connection, 9)
        assert (one.reader, one.room_id, one.event_id, one.problem, one.total) == (NAME, "!a", "$1", "y", 1)
        assert await connection.fetchval("SELECT entry FROM inbox WHERE position = 1") is None
        await prune_set_aside(connection, timedelta(days=1))
        assert len(await list_set_aside(connection, 9)) == 1
        await prune_set_aside(connection, timedelta(0))
        assert await list_set_aside(connection, 9) == []


async def test_a_replaced_reader_changes_nothing(database: Database) -> None:
    """It neither queues nor finishes entries."""
    async with database.autocommit() as connection:
        old = await begin_term(connection, NAME, 0)
        await enqueue(connection, (NAME, old, 1), [entry(1, "!a")])
        new = await begin_term(connection, NAME, 0)
        with pytest.raises(ReaderReplaced):
            await enqueue(connection, (NAME, old, 2), [entry(2, "!a")])
        with pytest.raises(ReaderReplaced):
            await fetch_first(connection, NAME, old, "!a")
        with pytest.raises(ReaderReplaced):
            await finish(connection, NAME, old, "!a", 1)
        await postpone(connection, NAME, old, 1, timedelta(seconds=60), "x")
        await set_aside(connection, NAME, old, 1, "x")
        first = await fetch_first(connection, NAME, new, "!a")
        assert first is not None
        assert (first.position, first.attempts) == (1, 0)
        assert await list_cursors(connection) == {NAME: 1}
