"""Transactions and connections, also when Postgres goes away."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest
import structlog

from storage.connect import ConnectionLost, DatabaseAddress, is_connection_loss
from storage.database import Connection, Database, connect_once
from storage.embedded import EmbeddedPostgres
from tests.support.postgres import pool_on


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # no event announces the change
        await asyncio.sleep(0)


async def test_a_transaction_commits_or_rolls_back(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("CREATE TABLE things (id integer)")
        await connection.execute("INSERT INTO things VALUES (1)")

    async def fail() -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO things VALUES (2)")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()
    async with database.transaction(readonly=True, isolation="repeatable_read") as connection:
        assert await connection.fetchval("SELECT array_agg(id) FROM things") == [1]
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("INSERT INTO things VALUES (3)")


async def test_callbacks_run_after_the_commit(database: Database) -> None:
    """In order, when others see the changes. They do not run after a rollback, and are refused for other
    connections."""
    done: list[object] = []
    async with database.transaction() as connection:
        await connection.execute("INSERT INTO node (server_name) VALUES ('here')")
        assert database.after_commit(connection, lambda: done.append(1))
        assert database.after_commit(connection, lambda: done.append(2))
        assert done == []
    assert done == [1, 2]
    assert not database.after_commit(connection, lambda: done.append(3))
    with contextlib.suppress(KeyError):
        async with database.transaction() as connection:
            assert database.after_commit(connection, lambda: done.append(4))
            raise KeyError
    async with database.transaction() as connection:
        assert database.after_commit(connection, lambda: done.append(6))
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute("SELECT 1/0")
        # Postgres will respond to the COMMIT with ROLLBACK.
    async with database.autocommit() as connection:
        await connection.execute("UPDATE node SET server_name = 'there'")
        # Each statement is committed by itself.
        assert database.after_commit(connection, lambda: done.append(0))
    assert done.pop() == 0
    single = await connect_once(database.address)
    try:
        assert not database.after_commit(single, lambda: done.append(5))
    finally:
        await single.close()
    assert done == [1, 2]


async def test_a_failing_callback_does_not_make_the_commit_look_failed(database: Database) -> None:
    """It is logged, and the next callbacks run."""
    done: list[int] = []
    problem = ValueError("mine")

    def fail() -> None:
        raise problem

    with structlog.testing.capture_logs() as logs:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO node (server_name) VALUES ('here')")
            assert database.after_commit(connection, fail)
            assert database.after_commit(connection, lambda: done.append(1))
        async with database.autocommit() as connection:
            assert database.after_commit(connection, fail)
            assert await connection.fetchval("SELECT count(*) FROM node") == 1
    assert done == [1]
    assert [entry["exc_info"] for entry in logs] == [problem, problem]


async def test_reading_needs_no_transaction(database_address: DatabaseAddress) -> None:
    """Each statement sees what was committed before it, and a broken connection is replaced."""
    async with pool_on(database_address, maximum=1) as database:

        async def read(connection: Connection) -> tuple[object, bool]:
            return await connection.fetchval("SELECT count(*) FROM node"), connection.is_in_transaction()

        assert await database.read(read) == (0, False)
        other = await connect_once(database_address)
        try:
            await other.execute("INSERT INTO node (server_name) VALUES ('here')")
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        finally:
            await other.close()
        assert await database.read(read) == (1, False)


async def test_a_session_ends_with_its_context(database_address: DatabaseAddress) -> None:
    """The next user of the connection finds no settings and locks of the previous one."""
    async with pool_on(database_address, maximum=1) as database:
        async with database.connection() as connection:
            before = await connection.fetchval("SELECT pg_backend_pid()")
            await connection.execute("SET work_mem = '1234kB'; SELECT pg_advisory_lock(1)")
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT pg_backend_pid()") == before
            assert await connection.fetchval("SHOW work_mem") != "1234kB"
            mine = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            assert await connection.fetchval(mine) == 0


async def test_a_cancelled_transaction_returns_its_connection(database_address: DatabaseAddress) -> None:
    """It leaves no lock behind."""
    async with pool_on(database_address, maximum=1) as database:
        began = asyncio.Event()

        async def work() -> None:
            async with database.transaction() as connection:
                await connection.execute("INSERT INTO node (server_name) VALUES ('gone')")
                began.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with database.transaction() as connection:
            assert await connection.fetchval("SELECT count(*) FROM node") == 0


async def test_a_transaction_may_be_cancelled_at_any_moment(database_address: DatabaseAddress) -> None:
    """Also while it begins; the pool stays usable, and asyncio reports nothing."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    try:
        async with pool_on(database_address, maximum=1) as database:

            async def work() -> None:
                async with database.transaction() as connection:
                    await connection.fetchval("SELECT 1")

            for steps in range(40):
                task = asyncio.create_task(work())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await work()
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    assert complaints == []


async def test_the_pool_reports_its_statistics(database_address: DatabaseAddress) -> None:
    """Connections, idle connections, the limit, and waiting callers."""
    async with pool_on(database_address, maximum=1) as database:
        assert (database.stats.size, database.stats.idle, database.stats.maximum) == (1, 1, 1)
        assert database.stats.waiting == 0

        async def second() -> None:
            async with database.transaction():
                pass

        async with database.transaction():
            waiting = asyncio.create_task(second())
            await until(lambda: database.stats.waiting > 0)
            assert (database.stats.size, database.stats.idle) == (1, 0)
        await waiting
        assert database.stats.waiting == 0


async def test_the_same_connection_is_reused(database: Database) -> None:
    """Its caches are warm; the others stay free for concurrent users."""
    used: set[Connection] = set()
    for _ in range(3):
        async with database.transaction(readonly=True) as connection:
            used.add(connection)
        async with database.autocommit() as connection:
            used.add(connection)

        async def look(connection: Connection) -> None:
            used.add(connection)

        await database.read(look)
    assert len(used) == 1
    async with database.autocommit() as connection, database.autocommit() as other:
        assert connection is not other


async def test_a_cancelled_statement_returns_its_connection(database_address: DatabaseAddress) -> None:
    """The same connection, without a running statement."""
    state = "SELECT state FROM pg_stat_activity WHERE pid = $1"
    async with (
        pool_on(database_address, maximum=1) as database,
        pool_on(database_address) as others,
        others.connection() as observer,
    ):

        async def sleep(connection: Connection) -> None:
            await connection.execute("SELECT pg_sleep(600)")

        async def sleep_by_itself() -> None:
            async with database.autocommit() as connection:
                await sleep(connection)

        async with database.autocommit() as connection:
            before = await connection.fetchval("SELECT pg_backend_pid()")
        for work in (database.read(sleep), sleep_by_itself()):
            task = asyncio.create_task(work)
            while await observer.fetchval(state, before) != "active":
                pass
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with database.autocommit() as connection:
                assert await connection.fetchval("SELECT pg_backend_pid()") == before


async def test_a_terminated_session_is_a_lost_connection(database: Database) -> None:
    """A session that Postgres or its administrator terminates is distinguished from an error of the
    statement."""
    with pytest.raises(ConnectionLost) as lost:
        async with database.transaction() as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert is_connection_loss(lost.value)
    assert lost.value.problem == f"The connection to Postgres at {database.address.server} was lost."
    assert "continues by itself" in lost.value.advice
    async with database.transaction() as connection:
        with pytest.raises(asyncpg.DivisionByZeroError) as other:
            await connection.execute("SELECT 1/0")
        assert not is_connection_loss(other.value)


async def test_a_session_that_breaks_at_its_end_is_no_error(database: Database) -> None:
    """Its work is done; its connection is replaced."""
    async with database.connection() as connection:
        await connection.execute("INSERT INTO node (server_name) VALUES ('kept')")
        with pytest.raises(asyncpg.PostgresError):
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT server_name FROM node") == "kept"


async def test_using_a_lost_connection_raises_connection_lost(database: Database) -> None:
    """Also if the caller did not notice the loss before."""

    async def go_on() -> None:
        async with database.transaction() as connection:
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            await until(connection.is_closed)
            await connection.execute("SELECT 1")

    with pytest.raises(ConnectionLost):
        await go_on()


async def test_an_error_of_the_caller_is_not_replaced(database: Database) -> None:
    """A loss of the connection meanwhile does not hide it."""

    async def fail() -> None:
        async with database.transaction() as connection:
            with pytest.raises(asyncpg.PostgresError):
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await fail()


async def test_a_connection_lost_while_idle_is_replaced(database_address: DatabaseAddress) -> None:
    """No caller gets an error."""
    other = await connect_once(database_address)
    try:
        async with pool_on(database_address, maximum=1) as database:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            async with database.transaction() as connection:
                assert await connection.fetchval("SELECT 1") == 1
    finally:
        await other.close()


async def test_a_restart_of_postgres_is_tolerated(data_directory: Path) -> None:
    """Running work fails with ConnectionLost, new work waits a moment, and the data is there."""
    postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=0)
    await postgres.start()
    try:
        # Recovery on a busy disk may take longer than the default timeout.
        async with pool_on(postgres.address, retry_timeout=120.0) as database:
            async with database.transaction() as connection:
                await connection.execute("CREATE TABLE kept AS SELECT 7 AS n")

            async def be_cut_off() -> None:
                async with database.transaction() as connection:
                    assert postgres.pid is not None
                    os.kill(postgres.pid, signal.SIGKILL)
                    await connection.execute("SELECT pg_sleep(60)")

            with pytest.raises(ConnectionLost):
                await be_cut_off()
            async with database.transaction() as connection:
                assert await connection.fetchval("SELECT n FROM kept") == 7
        # A connection may reach the new Postgres before the task that has started it.
        async with asyncio.timeout(60):
            while postgres.restarts == 0:
                await asyncio.sleep(0.01)
        assert postgres.restarts == 1
    finally:
        await postgres.stop()


async def test_the_retry_timeout_ends(data_directory: Path) -> None:
    """If Postgres stays away, every use ends in the error that names it."""
    postgres = EmbeddedPostgres(data_directory, minimum_free_bytes=0)
    await postgres.start()
    try:
        database = await Database.connect(postgres.address, retry_timeout=0.0)
    finally:
        await postgres.stop()
    try:
        for use in (database.transaction, database.connection):
            with pytest.raises(ConnectionLost, match=str(data_directory)):
                async with use():
                    pass
    finally:
        await database.close()
