"""What becomes of a connection when the work on it ends in an error."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from storage import database as module
from storage.connect import Connection, ConnectionLost, DatabaseAddress, open_connection
from storage.database import ConnectionProvider
from storage.errors import LocalError
from storage.pool import Pool


@pytest.fixture
async def onlooker(database_address: DatabaseAddress) -> AsyncIterator[Connection]:
    """Another connection, for looking at the one that is lent."""
    connection = await open_connection(database_address, connect_timeout=60.0)
    try:
        yield connection
    finally:
        connection.terminate()


async def until_at_work(onlooker: Connection, connection: Connection) -> None:
    """What is to be cancelled must have begun: Postgres forgets at once what asks it to cancel nothing."""
    state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
    while await onlooker.fetchval(state, connection.get_server_pid()) != "active":
        pass


@pytest.fixture
async def provider(database_address: DatabaseAddress) -> AsyncIterator[ConnectionProvider]:
    """Of a single connection, without patience."""
    pool = Pool(database_address, minimum=1, maximum=1, connect_timeout=60.0)
    await pool.start()
    try:
        yield ConnectionProvider(pool, 0.0)
    finally:
        pool.terminate()


async def test_what_is_cancelled_is_over_before_the_connection_is_given_back(
    provider: ConnectionProvider, onlooker: Connection
) -> None:
    """Whoever takes it next finds nothing under way and no transaction on it."""
    for is_open in (True, False):
        connection = await provider.pool.take()
        if is_open:
            await connection.execute("BEGIN")
        working = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
        await until_at_work(onlooker, connection)
        working.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await working
        await provider.release_after_error(connection, cancelled.value, is_open=is_open)
        assert provider.pool.idle() is connection
        assert not connection.is_in_transaction()
        assert await connection.fetchval("SELECT 1") == 1
        provider.pool.give_back(connection)


async def test_what_is_cancelled_too_early_is_not_waited_for(
    provider: ConnectionProvider, onlooker: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres may be asked to cancel a statement before it has come there. It goes on by itself, and its
    connection is nobody's."""
    monkeypatch.setattr(module, "ROLLBACK_TIMEOUT", 0.05)

    async def too_early(**asked: object) -> None:
        pass

    monkeypatch.setattr(asyncpg.connect_utils, "_cancel", too_early)
    connection = await provider.pool.take()
    working = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
    await until_at_work(onlooker, connection)
    working.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await working
    await provider.release_after_error(connection, cancelled.value, is_open=False)
    assert connection.is_closed()
    assert provider.pool.counts() == (0, 0)


async def test_what_cannot_be_rolled_back_is_dropped(provider: ConnectionProvider) -> None:
    """Nobody knows its state. What went wrong before is what is raised."""
    connection = await provider.pool.take()
    await connection.execute("BEGIN")
    still_at_work = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
    await asyncio.sleep(0)
    await provider.release_after_error(connection, KeyError(), is_open=True)
    assert connection.is_closed()
    with pytest.raises(asyncpg.PostgresConnectionError):
        await still_at_work
    connection = await provider.pool.take()
    await provider.release_after_error(connection, GeneratorExit(), is_open=False)
    assert connection.is_closed()
    assert provider.pool.counts() == (0, 0)


async def test_a_rollback_that_is_cancelled_leaves_no_connection(provider: ConnectionProvider) -> None:
    """Cancelled twice, it is given up."""
    connection = await provider.pool.take()
    await connection.execute("BEGIN")
    ending = asyncio.create_task(provider.release_after_error(connection, KeyError(), is_open=True))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert connection.is_closed()


async def test_what_is_refused_is_not_tried_again(provider: ConnectionProvider) -> None:
    """It would be refused again; the reason is for a person, or what the database said."""

    async def refused(connection: Connection) -> None:
        await connection.execute("SET ROLE pg_read_all_data; CREATE TABLE mine ()")

    async def wrong(connection: Connection) -> None:
        await connection.execute("SELECT 1/0")

    with pytest.raises(LocalError, match="does not let"):
        await provider.begin(refused)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await provider.begin(wrong)
    assert provider.pool.counts() == (1, 1)
    assert provider.waiting == 0


async def test_what_is_lost_at_the_beginning_is_tried_until_patience_ends(
    provider: ConnectionProvider,
) -> None:
    """Each time on another connection."""
    seen: list[Connection] = []

    async def begin(connection: Connection) -> None:
        seen.append(connection)
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async def begin_once_more(connection: Connection) -> int | None:
        return await begin(connection) if len(seen) == 1 else len(seen)

    with pytest.raises(ConnectionLost):
        await provider.begin(begin)
    patient = ConnectionProvider(provider.pool, 60.0)
    connection, tries = await patient.begin(begin_once_more)
    assert (len(set(seen)), tries) == (2, 2)
    assert connection not in seen
    provider.pool.give_back(connection)


async def test_a_session_ends_as_it_began(provider: ConnectionProvider) -> None:
    """Without a transaction, settings, locks or listeners; one that broke when it was over was of use."""
    connection, _ = await provider.begin(nothing)
    await connection.execute("SET work_mem = '1234kB'; SELECT pg_advisory_lock(1); LISTEN somebody")
    await provider.release_session(connection, None)
    assert provider.pool.idle() is connection
    assert await connection.fetchval("SHOW work_mem") != "1234kB"
    mine = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    assert await connection.fetchval(mine) == 0
    assert await connection.fetch("SELECT pg_listening_channels()") == []
    connection.terminate()
    await provider.release_session(connection, None)
    connection, _ = await provider.begin(nothing)
    connection.terminate()
    with pytest.raises(ConnectionLost):
        await provider.release_session(connection, ConnectionError())
    assert provider.pool.counts() == (0, 0)


async def nothing(connection: Connection) -> None:
    """There is nothing to begin."""
