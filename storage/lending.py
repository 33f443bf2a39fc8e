"""Beginning to work on a connection, tried again while Postgres is away; and what becomes of a connection on
which the work ends in an error."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from storage.connecting import BROKEN, ConnectionLost, is_connection_loss, refusal
from storage.opening import Single
from storage.pool import Pool

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
