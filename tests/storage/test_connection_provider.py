"""What happens to a connection when the work on it fails."""

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
async def observer(database_address: DatabaseAddress) -> AsyncIterator[Connection]:
    """Another connection, to observe the one under test."""
    connection = await open_connection(database_address, connect_timeout=60.0)
    try:
        yield connection
    finally:
        connection.terminate()


async def wait_until_active(observer: Connection, connection: Connection) -> None:
    """Wait until a statement is running: Postgres ignores a request to cancel if there is none."""
    state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
    while await observer.fetchval(state, connection.get_server_pid()) != "active":
        pass


@pytest.fixture
async def provider(database_address: DatabaseAddress) -> AsyncIterator[ConnectionProvider]:
    """A provider with one connection and without retries."""
    pool = Pool(database_address, minimum=1, maximum=1, connect_timeout=60.0)
    await pool.start()
    try:
        yield ConnectionProvider(pool, 0.0)
    finally:
        pool.terminate()


async def test_a_cancelled_statement_ends_before_the_connection_is_returned(
    provider: ConnectionProvider, observer: Connection
) -> None:
    """The next user finds no running statement and no transaction."""
    for is_open in (True, False):
        connection = await provider.pool.take()
        if is_open:
            await connection.execute("BEGIN")
        working = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
        await wait_until_active(observer, connection)
        working.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await working
        await provider.release_after_error(connection, cancelled.value, is_open=is_open)
        assert provider.pool.idle() is connection
        assert not connection.is_in_transaction()
        assert await connection.fetchval("SELECT 1") == 1
        provider.pool.give_back(connection)


async def test_a_statement_that_cannot_be_cancelled_loses_its_connection(
    provider: ConnectionProvider, observer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to cancel may reach Postgres before the statement. The statement then continues, and the
    connection is closed."""
    monkeypatch.setattr(module, "ROLLBACK_TIMEOUT", 0.05)

    async def too_early(**asked: object) -> None:
        pass

    monkeypatch.setattr(asyncpg.connect_utils, "_cancel", too_early)
    connection = await provider.pool.take()
    working = asyncio.create_task(connection.execute("SELECT pg_sleep(600)"))
    await wait_until_active(observer, connection)
    working.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await working
    await provider.release_after_error(connection, cancelled.value, is_open=False)
    assert connection.is_closed()
    assert provider.pool.counts() == (0, 0)


async def test_a_connection_that_cannot_be_rolled_back_is_closed(provider: ConnectionProvider) -> None:
    """Its state is unknown. The original error is raised."""
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


async def test_a_cancelled_rollback_closes_the_connection(provider: ConnectionProvider) -> None:
    connection = await provider.pool.take()
    await connection.execute("BEGIN")
    ending = asyncio.create_task(provider.release_after_error(connection, KeyError(), is_open=True))
    await asyncio.sleep(0)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert connection.is_closed()


async def test_a_refused_statement_is_not_retried(provider: ConnectionProvider) -> None:
    """The error is explained for the operator, or raised unchanged."""

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


async def test_beginning_is_retried_until_the_timeout(provider: ConnectionProvider) -> None:
    """Each time on another connection."""
    seen: list[Connection] = []

    async def begin(connection: Connection) -> None:
        seen.append(connection)
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    async def begin_once_more(connection: Connection) -> int | None:
        return await begin(connection) if len(seen) == 1 else len(seen)

    with pytest.raises(ConnectionLost):
        await provider.begin(begin)
    retrying = ConnectionProvider(provider.pool, 60.0)
    connection, tries = await retrying.begin(begin_once_more)
    assert (len(set(seen)), tries) == (2, 2)
    assert connection not in seen
    provider.pool.give_back(connection)


async def test_a_session_is_reset(provider: ConnectionProvider) -> None:
    """No transaction, setting, lock or listener remains. A connection that breaks during the reset is not an
    error."""
    connection, _ = await provider.begin(do_nothing)
    await connection.execute("SET work_mem = '1234kB'; SELECT pg_advisory_lock(1); LISTEN somebody")
    await provider.release_session(connection, None)
    assert provider.pool.idle() is connection
    assert await connection.fetchval("SHOW work_mem") != "1234kB"
    mine = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
    assert await connection.fetchval(mine) == 0
    assert await connection.fetch("SELECT pg_listening_channels()") == []
    connection.terminate()
    await provider.release_session(connection, None)
    connection, _ = await provider.begin(do_nothing)
    connection.terminate()
    with pytest.raises(ConnectionLost):
        await provider.release_session(connection, ConnectionError())
    assert provider.pool.counts() == (0, 0)


async def do_nothing(connection: Connection) -> None:
    """For work that needs no BEGIN."""
