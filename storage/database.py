"""The node's access to its database: transactions, single statements and dedicated connections.

Work that has not begun is retried while Postgres is restarting. A connection on which work has failed is
returned to the pool only if its state is known; otherwise it is closed.

Every task uses this code several times, so the common case is a few plain calls; errors are handled in
`ConnectionProvider`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, TypeAlias, TypeVar

import asyncpg
import structlog

from storage.connect import (
    BROKEN_CONNECTION_ERRORS,
    ConnectionLost,
    DatabaseAddress,
    check_version,
    explain_connection_error,
    is_connection_loss,
)
from storage.connect import Connection as Connection
from storage.connect import connect_once as connect_once
from storage.pool import Pool
from storage.session import Session

T = TypeVar("T")

RETRY_INTERVAL = 0.05
ROLLBACK_TIMEOUT = 5.0
"""Seconds to wait for a cancelled statement to end. After that the connection is closed."""


class ConnectionProvider:
    """Takes connections from the pool, retries while Postgres is unavailable, and returns or closes a
    connection after an error."""

    def __init__(self, pool: Pool, retry_timeout: float) -> None:
        self.pool = pool
        self.waiting = 0
        """How many callers wait for a connection."""
        self._retry_timeout = retry_timeout

    async def begin(
        self, begin: Callable[[Connection], Awaitable[T]], *, is_open: bool = False
    ) -> tuple[Connection, T]:
        """Return a connection on which `begin` has succeeded, and its result. `begin` is retried on another
        connection when its connection is lost, so it must be the first thing that the caller does.
        `is_open`: it begins a transaction."""
        deadline = time.monotonic() + self._retry_timeout
        self.waiting += 1
        try:
            while True:
                connection = None
                try:
                    connection = await self.pool.take()
                    return connection, await begin(connection)
                except BaseException as error:
                    await self.handle_begin_error(connection, error, is_open=is_open)
                    if time.monotonic() >= deadline:
                        raise ConnectionLost(self.pool.address) from error
                await asyncio.sleep(RETRY_INTERVAL)
        finally:
            self.waiting -= 1

    async def handle_begin_error(
        self, connection: "Connection | None", error: BaseException, *, is_open: bool = False
    ) -> None:
        """Dispose of the connection. Raises the error, or its explanation, unless the work may be retried."""
        if connection is not None and await self._dispose(connection, error, is_open=is_open):
            return
        if not isinstance(error, OSError | asyncpg.PostgresError):
            raise error
        if not is_transient(error):
            raise explain_connection_error(error, self.pool.address) or error from error

    async def release_after_error(self, connection: Connection, error: BaseException, *, is_open: bool) -> None:
        """Dispose of the connection after its work has failed. Raises ConnectionLost if the connection was
        the cause; otherwise the caller raises its own error."""
        if await self._dispose(connection, error, is_open=is_open):
            raise ConnectionLost(self.pool.address) from error

    async def release_session(self, connection: Connection, error: BaseException | None) -> None:
        """Reset the settings, locks and listeners of the connection and return it to the pool. A connection
        that breaks during the reset is only closed: the work on it has been done."""
        is_lost = isinstance(error, Exception) and is_loss_of(connection, error)
        try:
            if not is_lost:
                await connection.reset()
        except BaseException as failed:
            self.pool.drop(connection)
            if not isinstance(failed, BROKEN_CONNECTION_ERRORS):
                raise
            return
        if is_lost:
            self.pool.drop(connection)
            raise ConnectionLost(self.pool.address) from error
        self.pool.give_back(connection)

    async def _dispose(self, connection: Connection, error: BaseException, *, is_open: bool) -> bool:
        """Return the connection to the pool, or close it if it is lost or its state is unknown. True if the
        error means that it was lost. `is_open`: there is a transaction on it."""
        if not isinstance(error, Exception | asyncio.CancelledError):
            self.pool.drop(connection)
            return False
        if isinstance(error, Exception) and is_loss_of(connection, error):
            self.pool.drop(connection)
            return True
        await self._roll_back(connection, error, is_open=is_open)
        return False

    async def _roll_back(self, connection: Connection, error: BaseException, *, is_open: bool) -> None:
        try:
            if isinstance(error, asyncio.CancelledError):
                # The cancelled statement may still be running; this one runs after it. Postgres does not
                # cancel a statement that arrives after the request to cancel it.
                async with asyncio.timeout(ROLLBACK_TIMEOUT):
                    await connection.execute("ROLLBACK" if is_open else "SELECT 1")
            elif connection.is_in_transaction():
                await connection.execute("ROLLBACK")
        except BaseException as failed:
            self.pool.drop(connection)
            # Postgres rolls back when a connection is lost; a second error would hide the first.
            if not isinstance(failed, Exception):
                raise
        else:
            self.pool.give_back(connection)


def is_loss_of(connection: Connection, error: Exception) -> bool:
    """Whether the error means that this connection failed, rather than other work of the caller."""
    if isinstance(error, ConnectionError | asyncpg.InterfaceError):
        return connection.is_closed()
    return is_connection_loss(error) or type(error) is asyncpg.InternalClientError


def is_transient(error: Exception) -> bool:
    return isinstance(error, OSError | asyncpg.TooManyConnectionsError) or is_connection_loss(error)


Isolation = Literal["read_committed", "repeatable_read", "serializable"]
# Callbacks to run after the commit of the transaction on each connection. None for a connection on which each
# statement is committed by itself.
CommitCallbacks: TypeAlias = dict[Connection, list[Callable[[], None]] | None]


log = structlog.get_logger("palaver.database")


@dataclass(frozen=True, slots=True)
class PoolStats:
    size: int
    idle: int
    maximum: int
    waiting: int


class Database:
    """A pool of connections to one database, and the session of this process with it."""

    def __init__(self, address: DatabaseAddress, pool: Pool, retry_timeout: float) -> None:
        self.address = address
        self.session = Session(address)
        """For notifications between processes and for leases."""
        self._pool = pool
        self._connections = ConnectionProvider(pool, retry_timeout)
        self._callbacks: CommitCallbacks = {}

    @classmethod
    async def connect(
        cls,
        address: DatabaseAddress,
        *,
        minimum: int = 2,
        maximum: int = 10,
        connect_timeout: float = 10.0,
        retry_timeout: float = 10.0,
    ) -> Self:
        """Raises LocalError, which explains why the database cannot be used.

        `retry_timeout`: seconds for which work is retried after a later loss of connection, before
        ConnectionLost is raised. A restart of Postgres takes less.
        """
        pool = Pool(address, minimum=minimum, maximum=maximum, connect_timeout=connect_timeout)
        try:
            await pool.start()
            connection = await pool.take()
            version = connection.get_server_version()
            pool.give_back(connection)
            check_version(version.major, version.minor, address)
        except BaseException as error:
            pool.terminate()
            explained = explain_connection_error(error, address)
            if explained is None:
                raise
            raise explained from error
        return cls(address, pool, retry_timeout)

    async def close(self) -> None:
        """Wait until all connections have been returned, and close them."""
        await self.session.close()
        await self._pool.close()

    @property
    def stats(self) -> PoolStats:
        size, idle = self._pool.counts()
        return PoolStats(size=size, idle=idle, maximum=self._pool.maximum, waiting=self._connections.waiting)

    def transaction(self, *, isolation: Isolation | None = None, readonly: bool = False) -> "Transaction":
        """A context manager that commits at its end, and rolls back if its block raises.

        Use only `SET LOCAL` and transaction-level advisory locks in it: the connection is reused. Raises
        ConnectionLost when the connection fails. If that happens during the commit, the transaction may or
        may not have been committed; repeat the work only if it is idempotent.
        """
        begin = "BEGIN READ ONLY" if readonly else "BEGIN"
        if isolation is not None:
            begin += f" ISOLATION LEVEL {isolation.replace('_', ' ')}"
        return Transaction(self._connections, self._callbacks, begin)

    def after_commit(self, connection: Connection, callback: Callable[[], None]) -> bool:
        """Call `callback` once the transaction on this connection has been committed. It is not called after
        a rollback, nor when the outcome of the commit is unknown. An error in it is logged: the commit has
        succeeded. False if the connection is in no transaction of this pool; then it is not called.
        """
        try:
            callbacks = self._callbacks[connection]
        except KeyError:
            return False
        if callbacks is None:
            _run(callback)
        else:
            callbacks.append(callback)
        return True

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Return the result of `work`, without a transaction, which would cost two more round trips: each of
        its statements sees what has been committed before it. `work` is retried when the connection fails, so
        it must be idempotent."""
        connection = self._pool.idle()
        if connection is None:
            connection, found = await self._connections.begin(work)
        else:
            try:
                found = await work(connection)
            except BaseException as error:
                await self._connections.handle_begin_error(connection, error)
                connection, found = await self._connections.begin(work)
        self._pool.give_back(connection)
        return found

    def autocommit(self) -> "AutocommitConnection":
        """A context manager for statements that are each committed by themselves. Raises ConnectionLost when
        the connection fails; the last statement may or may not have been executed."""
        return AutocommitConnection(self._connections, self._callbacks)

    def connection(self) -> "SessionConnection":
        """A context manager for a connection without a transaction. Its settings and advisory locks end with
        the context."""
        return SessionConnection(self._connections)


class Transaction:
    __slots__ = ("_begin", "_callbacks", "_connection", "_connections")
    _connection: Connection

    def __init__(self, connections: ConnectionProvider, callbacks: CommitCallbacks, begin: str) -> None:
        self._connections = connections
        self._callbacks = callbacks
        self._begin = begin

    async def __aenter__(self) -> Connection:
        connection = self._connections.pool.idle()
        if connection is not None:
            try:
                await connection.execute(self._begin)
            except BaseException as error:
                await self._connections.handle_begin_error(connection, error, is_open=True)
                connection = None
        if connection is None:
            connection, _ = await self._connections.begin(self._execute_begin, is_open=True)
        self._connection = connection
        self._callbacks[connection] = []
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._connection
        callbacks = self._callbacks[connection]
        del self._callbacks[connection]
        if error is not None:
            await self._connections.release_after_error(connection, error, is_open=True)
            return
        try:
            ended = await connection.execute("COMMIT")
        except BaseException as failed:
            await self._connections.release_after_error(connection, failed, is_open=True)
            raise
        self._connections.pool.give_back(connection)
        # After a statement that failed Postgres answers a COMMIT with ROLLBACK.
        if callbacks and ended == "COMMIT":
            for callback in callbacks:
                _run(callback)

    async def _execute_begin(self, connection: Connection) -> None:
        await connection.execute(self._begin)


class AutocommitConnection:
    __slots__ = ("_callbacks", "_connection", "_connections")
    _connection: Connection

    def __init__(self, connections: ConnectionProvider, callbacks: CommitCallbacks) -> None:
        self._connections = connections
        self._callbacks = callbacks

    async def __aenter__(self) -> Connection:
        connection = self._connections.pool.idle()
        if connection is None:
            connection, _ = await self._connections.begin(_begin_nothing)
        self._connection = connection
        self._callbacks[connection] = None
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._callbacks[self._connection]
        if error is None:
            self._connections.pool.give_back(self._connection)
        else:
            await self._connections.release_after_error(self._connection, error, is_open=False)


class SessionConnection:
    __slots__ = ("_connection", "_connections")
    _connection: Connection

    def __init__(self, connections: ConnectionProvider) -> None:
        self._connections = connections

    async def __aenter__(self) -> Connection:
        self._connection, _ = await self._connections.begin(_begin_nothing)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.release_session(self._connection, error)


async def _begin_nothing(connection: Connection) -> None:
    """For work without a BEGIN statement."""


def _run(callback: Callable[[], None]) -> None:
    """Run a callback. An error in it must not make the commit look failed."""
    try:
        callback()
    except Exception as error:
        log.error("A callback failed after a commit.", exc_info=error)
