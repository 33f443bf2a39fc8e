"""What everything in a node does with its database, and how it rides over a restart of Postgres.

All of this is on the way of every task, several times: the common case is a few plain calls, and what goes
wrong is sorted out beside it (`storage/database.py`).

Beginning to work on a connection, tried again while Postgres is away; and what becomes of a connection on
which the work ends in an error.
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
    BROKEN,
    ConnectionLost,
    DatabaseAddress,
    is_connection_loss,
    refusal,
    refuse_version,
)
from storage.connect import Single as Single
from storage.connect import connect_once as connect_once
from storage.pool import Pool
from storage.session import Session

T = TypeVar("T")

RETRY_INTERVAL = 0.05
SETTLED_WITHIN = 5.0  # seconds: a statement that was cancelled and is under way still is left to Postgres


class Lender:
    def __init__(self, pool: Pool, patience: float) -> None:
        self.pool = pool
        self.waiting = 0
        self._patience = patience

    async def begun(
        self, begin: Callable[[Single], Awaitable[T]], *, is_open: bool = False
    ) -> tuple[Single, T]:
        """A connection on which the work has begun. Nothing was done before, so it may be tried again.
        `is_open`: it begins a transaction."""
        deadline = time.monotonic() + self._patience
        self.waiting += 1
        try:
            while True:
                connection = None
                try:
                    connection = await self.pool.take()
                    return connection, await begin(connection)
                except BaseException as error:
                    await self.not_begun(connection, error, is_open=is_open)
                    if time.monotonic() >= deadline:
                        raise ConnectionLost(self.pool.address) from error
                await asyncio.sleep(RETRY_INTERVAL)
        finally:
            self.waiting -= 1

    async def not_begun(
        self, connection: "Single | None", error: BaseException, *, is_open: bool = False
    ) -> None:
        """Raises why, unless it may be tried again."""
        if connection is not None and await self._is_lost_by(error, connection, is_open=is_open):
            return
        if not isinstance(error, OSError | asyncpg.PostgresError):
            raise error
        if not is_passing(error):
            raise refusal(error, self.pool.address) or error from error

    async def end(self, connection: Single, error: BaseException, *, is_open: bool) -> None:
        """The work ended in this error. ConnectionLost, if the error is that of the connection."""
        if await self._is_lost_by(error, connection, is_open=is_open):
            raise ConnectionLost(self.pool.address) from error

    async def end_session(self, connection: Single, error: BaseException | None) -> None:
        """Its settings, locks and listeners end. What was done in it is done: that the connection breaks
        afterwards concerns nobody."""
        is_lost = isinstance(error, Exception) and is_loss_of(connection, error)
        try:
            if not is_lost:
                await connection.reset()
        except BaseException as failed:
            self.pool.drop(connection)
            if not isinstance(failed, BROKEN):
                raise
            return
        if is_lost:
            self.pool.drop(connection)
            raise ConnectionLost(self.pool.address) from error
        self.pool.give_back(connection)

    async def _is_lost_by(self, error: BaseException, connection: Single, *, is_open: bool) -> bool:
        """Gives the connection back, or drops it if it is lost or nobody knows its state. `is_open`: there is
        a transaction on it."""
        if not isinstance(error, Exception | asyncio.CancelledError):
            self.pool.drop(connection)
            return False
        if isinstance(error, Exception) and is_loss_of(connection, error):
            self.pool.drop(connection)
            return True
        await self._settle(connection, error, is_open=is_open)
        return False

    async def _settle(self, connection: Single, error: BaseException, *, is_open: bool) -> None:
        try:
            if isinstance(error, asyncio.CancelledError):
                # What was cancelled may still be under way; this is carried out after it. A statement that
                # had not come to Postgres yet when it was asked to cancel it is not cancelled.
                async with asyncio.timeout(SETTLED_WITHIN):
                    await connection.execute("ROLLBACK" if is_open else "SELECT 1")
            elif connection.is_in_transaction():
                await connection.execute("ROLLBACK")
        except BaseException as failed:
            self.pool.drop(connection)
            # A lost connection has rolled back by itself; that it cannot again would hide what happened.
            if not isinstance(failed, Exception):
                raise
        else:
            self.pool.give_back(connection)


def is_loss_of(connection: Single, error: Exception) -> bool:
    """Did this connection fail, rather than something else the caller did?"""
    if isinstance(error, ConnectionError | asyncpg.InterfaceError):
        return connection.is_closed()
    return is_connection_loss(error) or type(error) is asyncpg.InternalClientError


def is_passing(error: Exception) -> bool:
    return isinstance(error, OSError | asyncpg.TooManyConnectionsError) or is_connection_loss(error)


# What a statement can be run on: a connection of the pool, or one that somebody opened by itself.
Connection: TypeAlias = Single
Isolation = Literal["read_committed", "repeatable_read", "serializable"]
# What is to be done once the transaction on a connection has been committed. None where every statement is
# committed by itself.
Afterwards: TypeAlias = dict[Connection, list[Callable[[], None]] | None]


log = structlog.get_logger("palaver.database")


@dataclass(frozen=True, slots=True)
class PoolStats:
    size: int
    idle: int
    maximum: int
    waiting: int


class Database:
    def __init__(self, address: DatabaseAddress, pool: Pool, patience: float) -> None:
        self.address = address
        self.session = Session(address)
        """For notifications of other processes and for leases."""
        self._pool = pool
        self._lender = Lender(pool, patience)
        self._afterwards: Afterwards = {}

    @classmethod
    async def connect(
        cls,
        address: DatabaseAddress,
        *,
        minimum: int = 2,
        maximum: int = 10,
        connect_timeout: float = 10.0,
        patience: float = 10.0,
    ) -> Self:
        """LocalError says why there is no connection.

        `patience` is how long a connection that was lost later is tried anew before ConnectionLost is raised;
        a restart of Postgres takes less.
        """
        pool = Pool(address, minimum=minimum, maximum=maximum, connect_timeout=connect_timeout)
        try:
            await pool.start()
            connection = await pool.take()
            version = connection.get_server_version()
            pool.give_back(connection)
            refuse_version(version.major, version.minor, address)
        except BaseException as error:
            pool.terminate()
            explained = refusal(error, address)
            if explained is None:
                raise
            raise explained from error
        return cls(address, pool, patience)

    async def close(self) -> None:
        """Waits for those who use a connection to give it back."""
        await self.session.close()
        await self._pool.close()

    @property
    def stats(self) -> PoolStats:
        size, idle = self._pool.counts()
        return PoolStats(size=size, idle=idle, maximum=self._pool.maximum, waiting=self._lender.waiting)

    def transaction(self, *, isolation: Isolation | None = None, readonly: bool = False) -> "Transaction":
        """All or nothing. Settings are made LOCAL in it, and locks taken for the transaction.

        ConnectionLost when Postgres went away. If that was at the end, the work may have been done or not: do
        it again only if it may be done twice.
        """
        begin = "BEGIN READ ONLY" if readonly else "BEGIN"
        if isolation is not None:
            begin += f" ISOLATION LEVEL {isolation.replace('_', ' ')}"
        return Transaction(self._lender, self._afterwards, begin)

    def after_commit(self, connection: Connection, act: Callable[[], None]) -> bool:
        """Have something done as soon as the transaction on this connection has been committed. It is not
        when the transaction is rolled back, nor when nobody knows what became of it. If it fails, that is
        logged: the commit has succeeded. False: it is no transaction of this pool, and nothing will be done.
        """
        try:
            afterwards = self._afterwards[connection]
        except KeyError:
            return False
        if afterwards is None:
            _run(act)
        else:
            afterwards.append(act)
        return True

    async def look(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What `work` reads, every statement for itself: in a transaction it would take two round trips more.
        It is done once more when the connection breaks, so that must be no harm."""
        connection = self._pool.idle()
        if connection is None:
            connection, found = await self._lender.begun(work)
        else:
            try:
                found = await work(connection)
            except BaseException as error:
                await self._lender.not_begun(connection, error)
                connection, found = await self._lender.begun(work)
        self._pool.give_back(connection)
        return found

    def statements(self) -> "Statements":
        """For one statement, or some of which each is a transaction of its own. ConnectionLost, when Postgres
        went away: the last one may have been carried out or not."""
        return Statements(self._lender, self._afterwards)

    def connection(self) -> "WholeConnection":
        """A connection without a transaction: its settings and advisory locks end with the context."""
        return WholeConnection(self._lender)


class Transaction:
    __slots__ = ("_afterwards", "_begin", "_connection", "_lender")
    _connection: Connection

    def __init__(self, lender: Lender, afterwards: Afterwards, begin: str) -> None:
        self._lender = lender
        self._afterwards = afterwards
        self._begin = begin

    async def __aenter__(self) -> Connection:
        connection = self._lender.pool.idle()
        if connection is not None:
            try:
                await connection.execute(self._begin)
            except BaseException as error:
                await self._lender.not_begun(connection, error, is_open=True)
                connection = None
        if connection is None:
            connection, _ = await self._lender.begun(self._execute_begin, is_open=True)
        self._connection = connection
        self._afterwards[connection] = []
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._connection
        afterwards = self._afterwards[connection]
        del self._afterwards[connection]
        if error is not None:
            await self._lender.end(connection, error, is_open=True)
            return
        try:
            ended = await connection.execute("COMMIT")
        except BaseException as failed:
            await self._lender.end(connection, failed, is_open=True)
            raise
        self._lender.pool.give_back(connection)
        # After a statement that failed Postgres answers a COMMIT with ROLLBACK.
        if afterwards and ended == "COMMIT":
            for act in afterwards:
                _run(act)

    async def _execute_begin(self, connection: Connection) -> None:
        await connection.execute(self._begin)


class Statements:
    __slots__ = ("_afterwards", "_connection", "_lender")
    _connection: Connection

    def __init__(self, lender: Lender, afterwards: Afterwards) -> None:
        self._lender = lender
        self._afterwards = afterwards

    async def __aenter__(self) -> Connection:
        connection = self._lender.pool.idle()
        if connection is None:
            connection, _ = await self._lender.begun(begin_nothing)
        self._connection = connection
        self._afterwards[connection] = None
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del self._afterwards[self._connection]
        if error is None:
            self._lender.pool.give_back(self._connection)
        else:
            await self._lender.end(self._connection, error, is_open=False)


class WholeConnection:
    __slots__ = ("_connection", "_lender")
    _connection: Connection

    def __init__(self, lender: Lender) -> None:
        self._lender = lender

    async def __aenter__(self) -> Connection:
        self._connection, _ = await self._lender.begun(begin_nothing)
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lender.end_session(self._connection, error)


async def begin_nothing(connection: Connection) -> None:
    """Each statement begins by itself."""


def _run(act: Callable[[], None]) -> None:
    """What runs after a commit must not make the commit look failed."""
    try:
        act()
    except Exception as error:
        log.error("An action after a commit failed.", exc_info=error)
