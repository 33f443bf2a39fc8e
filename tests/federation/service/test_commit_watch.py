"""Waiting for somebody else's transactions."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from federation.service.commit_watch import CommitWatch
from storage import outbox
from storage.database import Connection, Database

PATIENCE = 30.0


class Watched:
    def __init__(self, database: Database) -> None:
        self.told: asyncio.Queue[list[str]] = asyncio.Queue()
        self.watch: CommitWatch[str] = CommitWatch(database, self.told.put_nowait)


@pytest.fixture
async def watched(database: Database) -> AsyncIterator[Watched]:
    watched = Watched(database)
    watched.watch.start()
    yield watched
    await watched.watch.close()


async def write(connection: Connection) -> str:
    (row,) = await outbox.queue_pdus(connection, [("peer.test", "!r:a.example", "$1")], 1)
    return row.written_by


async def test_it_is_told_once_the_transaction_is_committed(database: Database, watched: Watched) -> None:
    """Not before: the rows are not there for anybody else. And all that was added comes together."""
    async with database.transaction() as connection:
        written_by = await write(connection)
        watched.watch.add(written_by, ["one"])
        watched.watch.add(written_by, ["two"])
        async with database.transaction() as other:
            watched.watch.add(await write(other), ["other"])
        async with asyncio.timeout(PATIENCE):
            assert await watched.told.get() == ["other"]
        assert watched.told.empty()
    async with asyncio.timeout(PATIENCE):
        assert await watched.told.get() == ["one", "two"]


async def test_the_pool_tells_of_its_own_transactions(database: Database, watched: Watched) -> None:
    """In the moment in which they are committed, and all that was added together; of one that was rolled back
    never."""
    with contextlib.suppress(KeyError):
        async with database.transaction() as connection:
            watched.watch.add(await write(connection), ["gone"], connection)
            raise KeyError
    async with database.transaction() as connection:
        written_by = await write(connection)
        watched.watch.add(written_by, ["one"], connection)
        watched.watch.add(written_by, ["two"], connection)
        assert watched.told.empty()
    assert watched.told.get_nowait() == ["one", "two"]
    async with database.transaction() as connection:
        watched.watch.add(await write(connection), ["there"])
    async with asyncio.timeout(PATIENCE):
        assert await watched.told.get() == ["there"]


async def test_of_what_was_rolled_back_nothing_is_told(database: Database, watched: Watched) -> None:
    """It never was."""
    async with database.transaction() as connection:
        await connection.execute("SAVEPOINT before")
        written_by = await write(connection)
        await connection.execute("ROLLBACK TO before")
    assert written_by
    try:
        async with database.transaction() as connection:
            watched.watch.add(await write(connection), ["gone"])
            raise OSError
    except OSError:
        pass
    async with database.transaction() as connection:
        watched.watch.add(await write(connection), ["there"])
    async with asyncio.timeout(PATIENCE):
        assert await watched.told.get() == ["there"]
    assert watched.told.empty()


async def test_closing_what_was_never_started(database: Database) -> None:
    """There is nothing to stop."""
    await Watched(database).watch.close()
