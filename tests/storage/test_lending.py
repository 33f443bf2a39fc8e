"""What becomes of a connection when the work on it ends in an error."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from storage import database as module
from storage.connect import ConnectionLost, DatabaseAddress, Single, open_connection
from storage.database import Lender
from storage.errors import LocalError
from storage.pool import Pool


@pytest.fixture
async def onlooker(database_address: DatabaseAddress) -> AsyncIterator[Single]:
    """Another connection, for looking at the one that is lent."""
    connection = await open_connection(database_address, connect_timeout=60.0)
    try:
        yield connection
    finally:
        connection.terminate()


async def until_at_work(onlooker: Single, connection: Single) -> None:
    """What is to be cancelled must have begun: Postgres forgets at once what asks it to cancel nothing."""
    state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
    while await onlooker.fetchval(state, connection.get_server_pid()) != "active":
        pass


@pytest.fixture
async def lender(database_address: DatabaseAddress) -> AsyncIterator[Lender]:
    """Of a single connection, without patience."""
    pool = Pool(database_address, minimum=1, maximum=1, connect_timeout=60.0)
    await pool.start()
    try:
        yield Lender(pool, 0.0)
    finally:
        pool.terminate()


async def test_what_is_cancelled_is_over_before_the_connection_is_given_back(
    lender: Lender, onlooker: Single
) -> None:
    """Whoever takes it next finds nothing under way and no transaction on it."""
    for is_open in (True, False):
        connection = await lender.pool.take()
        if is_open:
            await connection.execute("BEGIN")
        working = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
        await until_at_work(onlooker, connection)
        working.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await working
        await lender.end(connection, cancelled.value, is_open=is_open)
        assert lender.pool.idle() is connection
        assert not connection.is_in_transaction()
        assert await connection.fetchval("SELECT 1") == 1
        lender.pool.give_back(connection)


async def test_what_is_cancelled_too_early_is_not_waited_for(
    lender: Lender, onlooker: Single, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres may be asked to cancel a statement before it has come there. It goes on by itself, and its
    connection is nobody's."""
    monkeypatch.setattr(module, "SETTLED_WITHIN", 0.05)

    async def too_early(**asked: object) -> None:
        pass

    monkeypatch.setattr(asyncpg.connect_utils, "_cancel", too_early)
    connection = await lender.pool.take()
    working = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
    await until_at_work(onlooker, connection)
    working.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await working
    await lender.end(connection, cancelled.value, is_open=False)
    assert connection.is_closed()
    assert lender.pool.counts() == (0, 0)


async def test_what_cannot_be_rolled_back_is_dropped(lender: Lender) -> None:
    """Nobody knows its state. What went wrong before is what is raised."""
    connection = await lender.pool.take()
    await connection.execute("BEGIN")
    still_at_work = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
    await asyncio.sleep(0)
    await lender.end(connection, KeyError(), is_open=True)
    assert connection.is_closed()
    with pytest.raises(asyncpg.PostgresConnectionError):
        await still_at_work
    connection = await lender.pool.take()
    await lender.end(connection, GeneratorExit(), is_open=False)
    assert connection.is_closed()
    assert lender.pool.counts() == (0, 0)


async def test_a_rollback_that_is_cancelled_leaves_no_connection(lender: Lender) -> None:
    """Cancelled twice, it is given up."""
    connection = await lender.pool.take()
    await connection.execute("BEGIN")
    ending = asyncio.create_task(lender.end(connection, KeyError(), is_open=True))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert connection.is_closed()


async def test_what_is_refused_is_not_tried_again(lender: Lender) -> None:
    """It would be refused again; the reason is for a person, or what the database said."""

    async def refused(connection: Single) -> None:
        await connection.execute("SET ROLE pg_read_all_data; CREATE TABLE mine ()")

    async def wrong(connection: Single) -> None:
        await connection.execute("SELECT 1/0")

    with pytest.raises(LocalError, match="does not let"):
        await lender.begun(refused)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await lender.begun(wrong)
    assert lender.pool.counts() == (1, 1)
    assert lender.waiting == 0


async def test_what_is_lost_at_the_beginning_is_tried_until_patience_ends(lender: Lender) -> None:
    """Each time on another connection."""
    seen: list[Single] = []

    async def begin(connection: Single) -> None:
        seen.append(connection)
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async def begin_once_more(connection: Single) -> int | None:
        return await begin(connection) if len(seen) == 1 else len(seen)

    with pytest.raises(ConnectionLost):
        await lender.begun(begin)
    patient = Lender(lender.pool, 60.0)
    connection, tries = await patient.begun(begin_once_more)
    assert (len(set(seen)), tries) == (2, 2)
    assert connection not in seen
    lender.pool.give_back(connection)


async def test_a_session_ends_as_it_began(lender: Lender) -> None:
    """Without a transaction, settings, locks or listeners; one that broke when it was over was of use."""
    connection, _ = await lender.begun(nothing)
    await connection.execute("SET work_mem = '1234kB'; SELECT pg_advisory_lock(1); LISTEN somebody")
    await lender.end_session(connection, None)
    assert lender.pool.idle() is connection
    assert await connection.fetchval("SHOW work_mem") != "1234kB"
    mine = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    assert await connection.fetchval(mine) == 0
    assert await connection.fetch("SELECT pg_listening_channels()") == []
    connection.terminate()
    await lender.end_session(connection, None)
    connection, _ = await lender.begun(nothing)
    connection.terminate()
    with pytest.raises(ConnectionLost):
        await lender.end_session(connection, ConnectionError())
    assert lender.pool.counts() == (0, 0)


async def nothing(connection: Single) -> None:
    """There is nothing to begin."""
