"""What everything in a node does with its database, and how it rides over a restart of Postgres.

All of this is on the way of every task, several times: the common case is a few plain calls, and what goes
wrong is sorted out beside it (`storage/lending.py`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, TypeAlias, TypeVar

from storage.address import DatabaseAddress
from storage.connecting import refusal, refuse_version
from storage.lending import Lender
from storage.opening import Single as Single
from storage.opening import connect_once as connect_once
from storage.pool import Pool

# What a statement can be run on: a connection of the pool, or one that somebody opened by itself.
Connection: TypeAlias = Single
Isolation = Literal["read_committed", "repeatable_read", "serializable"]
# What is to be done once the transaction on a connection has been committed. None where every statement is
# committed by itself.
Afterwards: TypeAlias = dict[Connection, list[Callable[[], None]] | None]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PoolStats:
    size: int
    idle: int
    maximum: int
    waiting: int


class Database:
    def __init__(self, address: DatabaseAddress, pool: Pool, patience: float) -> None:
        self.address = address
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
        when the transaction is rolled back, nor when nobody knows what became of it. False: it is no
        transaction of this pool, and nothing will be done."""
        try:
            afterwards = self._afterwards[connection]
        except KeyError:
            return False
        if afterwards is None:
            act()
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

    def connection(self) -> "Session":
        """A session without a transaction: its settings and advisory locks end with the context."""
        return Session(self._lender)


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
                act()

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


class Session:
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
