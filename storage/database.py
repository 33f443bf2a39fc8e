"""The pool of connections that everything in a node shares, and how it rides over a restart of Postgres."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, TypeVar

import asyncpg
import orjson
from asyncpg.pool import PoolConnectionProxy
from asyncpg.transaction import Transaction

from storage.address import DatabaseAddress
from storage.connecting import LOST, ConnectionLost, is_connection_loss, refusal, refuse_version

# Quoted: only the types of asyncpg are generic, not its classes.
Pooled: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
Single: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# What a statement can be run on: a connection of the pool, or one that somebody opened by itself.
Connection: TypeAlias = "Pooled | Single"
Isolation = Literal["read_committed", "repeatable_read", "serializable"]

T = TypeVar("T")

# All that asyncpg raises on a connection that is breaking. Between the server's farewell and the end of the
# stream it calls a use of the connection a wrong use of itself, or finds itself in a state that it does not
# know.
BROKEN = (*LOST, asyncpg.InterfaceError, asyncpg.InternalClientError)

RETRY_INTERVAL = 0.05
# Tables are in one schema, whatever a server gives its roles to search first.
SETTINGS = {"application_name": "palaver", "timezone": "UTC", "search_path": "public"}


@dataclass(frozen=True, slots=True)
class PoolStats:
    size: int
    idle: int
    maximum: int
    waiting: int


class Database:
    def __init__(
        self, address: DatabaseAddress, pool: "asyncpg.Pool[asyncpg.Record]", patience: float
    ) -> None:
        self.address = address
        self._pool = pool
        self._patience = patience
        self._waiting = 0
        # What is to be done once a transaction that is under way has been committed.
        self._afterwards: dict[Connection, list[Callable[[], None]]] = {}
        # Where every statement is committed by itself.
        self._without: set[Connection] = set()

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
        pool = asyncpg.create_pool(
            address.url,
            password=address.password,
            min_size=minimum,
            max_size=maximum,
            timeout=connect_timeout,
            server_settings=SETTINGS,
            init=prepare,
            # Without this every use of a connection would cost one more round trip; see connection() below.
            reset=leave_as_it_is,
        )
        try:
            await pool
            async with pool.acquire() as connection:
                version = connection.get_server_version()
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
        return PoolStats(
            size=self._pool.get_size(),
            idle=self._pool.get_idle_size(),
            maximum=self._pool.get_max_size(),
            waiting=self._waiting,
        )

    @contextlib.asynccontextmanager
    async def transaction(
        self, *, isolation: Isolation | None = None, readonly: bool = False
    ) -> AsyncIterator[Connection]:
        """All or nothing. Settings are made LOCAL in it, and locks taken for the transaction.

        ConnectionLost when Postgres went away. If that was at the end, the work may have been done or not: do
        it again only if it may be done twice.
        """

        async def begin(connection: Pooled) -> Transaction:
            transaction = connection.transaction(isolation=isolation, readonly=readonly)
            await transaction.start()
            return transaction

        async with self._acquired(begin) as (connection, transaction):
            afterwards = self._afterwards[connection] = []
            try:
                yield connection
            except BaseException:
                # A lost connection has rolled back by itself; that it cannot again would hide what happened.
                with contextlib.suppress(*BROKEN):
                    await transaction.rollback()
                raise
            finally:
                del self._afterwards[connection]
            await transaction.commit()
        for act in afterwards:
            act()

    def after_commit(self, connection: Connection, act: Callable[[], None]) -> bool:
        """Have something done as soon as the transaction on this connection has been committed. It is not
        when the transaction is rolled back, nor when nobody knows what became of it. False: it is no
        transaction of this pool, and nothing will be done."""
        if connection in self._without:
            act()
            return True
        afterwards = self._afterwards.get(connection)
        if afterwards is None:
            return False
        afterwards.append(act)
        return True

    async def look(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """What `work` reads, every statement for itself: in a transaction it would take two round trips more.
        It is done once more when the connection breaks, so that must be no harm."""
        connection, found = await self._acquire(work)
        await self._release(connection)
        return found

    @contextlib.asynccontextmanager
    async def statements(self) -> AsyncIterator[Connection]:
        """For one statement, or some of which each is a transaction of its own. ConnectionLost, when Postgres
        went away: the last one may have been carried out or not."""

        async def begin(connection: Pooled) -> None:
            """Each begins by itself."""

        async with self._acquired(begin) as (connection, _):
            self._without.add(connection)
            try:
                yield connection
            finally:
                self._without.discard(connection)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A session without a transaction: its settings and advisory locks end with the context."""

        async def begin(connection: Pooled) -> None:
            """There is nothing to begin."""

        async with self._acquired(begin) as (connection, _):
            try:
                yield connection
            finally:
                await self._reset(connection)

    @contextlib.asynccontextmanager
    async def _acquired(self, begin: Callable[[Pooled], Awaitable[T]]) -> AsyncIterator[tuple[Pooled, T]]:
        connection, begun = await self._acquire(begin)
        try:
            yield connection, begun
        except Exception as error:
            if is_loss_of(connection, error):
                raise ConnectionLost(self.address) from error
            raise
        finally:
            await self._release(connection)

    async def _acquire(self, begin: Callable[[Pooled], Awaitable[T]]) -> tuple[Pooled, T]:
        """A connection on which the work has begun. Nothing was done before, so it may be tried again."""
        deadline = time.monotonic() + self._patience
        self._waiting += 1
        try:
            while True:
                try:
                    return await self._try_to_acquire(begin)
                except (ConnectionLost, OSError, asyncpg.PostgresError) as error:
                    if not is_passing(error):
                        raise refusal(error, self.address) or error from error
                    if time.monotonic() >= deadline:
                        raise ConnectionLost(self.address) from error
                await asyncio.sleep(RETRY_INTERVAL)
        finally:
            self._waiting -= 1

    async def _try_to_acquire(self, begin: Callable[[Pooled], Awaitable[T]]) -> tuple[Pooled, T]:
        connection = await self._pool.acquire()
        try:
            return connection, await begin(connection)
        except BaseException as error:
            lost = isinstance(error, Exception) and is_loss_of(connection, error)
            if not isinstance(error, Exception):
                # Cancelled: nobody knows how far it has begun.
                with contextlib.suppress(asyncpg.InterfaceError):
                    connection.terminate()
            await self._release(connection)
            if lost:
                raise ConnectionLost(self.address) from error
            raise

    async def _reset(self, connection: Pooled) -> None:
        if is_closed(connection):
            return
        try:
            await connection.execute(connection.get_reset_query())
        except BaseException as error:
            with contextlib.suppress(asyncpg.InterfaceError):
                connection.terminate()
            # What was done is done; that the connection broke afterwards concerns nobody.
            if not isinstance(error, BROKEN):
                raise

    async def _release(self, connection: Pooled) -> None:
        # One that breaks while it is given back is replaced by the pool, and nobody has to hear of it.
        with contextlib.suppress(*BROKEN):
            await self._pool.release(connection)


def is_loss_of(connection: Pooled, error: Exception) -> bool:
    """Did this connection fail, rather than something else the caller did? If so it is ended at once."""
    if isinstance(error, ConnectionError | asyncpg.InterfaceError):
        lost = is_closed(connection)
    else:
        lost = is_connection_loss(error) or type(error) is asyncpg.InternalClientError
    if lost:
        with contextlib.suppress(asyncpg.InterfaceError):
            connection.terminate()
    return lost


def is_closed(connection: Pooled) -> bool:
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        # The pool took it back when it broke.
        return True


def is_passing(error: Exception) -> bool:
    return isinstance(error, OSError | asyncpg.TooManyConnectionsError) or is_connection_loss(error)


async def prepare(connection: Single) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=orjson.dumps, decoder=orjson.loads, format="binary"
    )
    # The binary form of jsonb begins with a version, which has always been 1.
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + orjson.dumps(value),
        decoder=lambda data: orjson.loads(data[1:]),
        format="binary",
    )


async def leave_as_it_is(connection: Single) -> None:
    """What a transaction leaves behind ended with it. asyncpg itself rolls back one that was left open."""


async def connect_once(address: DatabaseAddress, *, connect_timeout: float = 10.0) -> Single:
    """A connection of one's own, outside every pool; to be closed by the caller."""
    try:
        connection = await asyncpg.connect(
            address.url, password=address.password, timeout=connect_timeout, server_settings=SETTINGS
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        explained = refusal(error, address)
        if explained is None:
            raise
        raise explained from error
    await prepare(connection)
    return connection
