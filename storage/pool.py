"""The connection pool. Taking and returning a connection is a few plain calls.

For each use asyncpg's own pool makes a proxy, a timer, a shielded task and a turn of the event loop: four
times as many calls as the statement for which a connection is usually taken. Here the connection returned
last is taken first, so that the caches in this process and in Postgres stay warm.
"""

import asyncio
import contextlib
from collections import deque

import asyncpg

from storage.connect import BROKEN_CONNECTION_ERRORS, Connection, DatabaseAddress, open_connection

UNUSED_TIMEOUT = 300.0
"""Seconds after which a connection that was not needed is closed."""


class Pool:
    """At most `maximum` connections, opened on demand. Callers that have to wait get one in the order of
    their requests."""

    def __init__(self, address: DatabaseAddress, *, minimum: int, maximum: int, connect_timeout: float) -> None:
        self.address = address
        self.maximum = maximum
        self.connections: set[Connection] = set()
        self._minimum = minimum
        self._connect_timeout = connect_timeout
        # A stack: the last connection is taken next.
        self._idle: list[Connection] = []
        # The smallest number of idle connections since the last sweep: so many were not needed.
        self._fewest_idle = 0
        self._opening = 0
        # A waiting caller is given a connection, or None: the right to open one, already counted in
        # `_opening`. While a caller waits, no connection is idle and none more may be opened.
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._is_closing = False
        self._all_returned = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Open the minimum number of connections."""
        while len(self.connections) < self._minimum:
            self._opening += 1
            self.give_back(await self._open())
        self._close_unused()

    async def close(self) -> None:
        """Wait until all connections have been returned and all waiting callers have been served, and close
        the connections."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        try:
            if self._in_use():
                await self._all_returned.wait()
            await asyncio.gather(*map(_close, self.connections))
        except BaseException:
            self.terminate()
            raise
        self.connections.clear()
        self._idle.clear()

    def terminate(self) -> None:
        self._is_closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections):
            connection.terminate()

    def counts(self) -> tuple[int, int]:
        """The number of open connections, and how many of them are idle."""
        return (
            sum(not connection.is_closed() for connection in self.connections),
            sum(not connection.is_closed() for connection in self._idle),
        )

    def idle(self) -> "Connection | None":
        """Take an idle connection, if there is one."""
        idle = self._idle
        while idle and not self._is_closing:
            connection = idle.pop()
            if len(idle) < self._fewest_idle:
                self._fewest_idle = len(idle)
            if not connection.is_closed():
                return connection
            self.connections.discard(connection)
        return None

    async def take(self) -> Connection:
        """Take a connection; open one or wait for one if none is idle."""
        if self._is_closing:
            raise asyncpg.InterfaceError("the pool of connections is closed")
        connection = self.idle()
        if connection is not None:
            return connection
        if len(self.connections) + self._opening < self.maximum:
            self._opening += 1
        else:
            connection = await self._wait()
            if connection is not None:
                if not connection.is_closed():
                    return connection
                self.connections.discard(connection)
                self._opening += 1
        return await self._open()

    def give_back(self, connection: Connection) -> None:
        """Return a connection. No transaction or statement may be in progress on it: it is not reset."""
        waiter = self._next_waiter() if self._waiting else None
        if waiter is not None:
            waiter.set_result(connection)
        else:
            self._idle.append(connection)
            if self._is_closing:
                self._check_all_returned()

    def drop(self, connection: Connection) -> None:
        """Close a connection that cannot be reused, instead of returning it."""
        connection.terminate()
        self.connections.discard(connection)
        self._release_slot()

    async def _open(self) -> Connection:
        """Open a connection that the caller has counted in `_opening`."""
        try:
            connection = await open_connection(self.address, connect_timeout=self._connect_timeout)
        except BaseException:
            self._opening -= 1
            self._release_slot()
            raise
        self._opening -= 1
        self.connections.add(connection)
        return connection

    async def _wait(self) -> "Connection | None":
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.remove(waiter)
            elif (given := waiter.result()) is not None:
                self.give_back(given)
            else:
                self._opening -= 1
                self._release_slot()
            raise

    def _next_waiter(self) -> "asyncio.Future[Connection | None] | None":
        for waiter in self._waiting:
            if not waiter.cancelled():
                self._waiting.remove(waiter)
                return waiter
        return None

    def _release_slot(self) -> None:
        waiter = self._next_waiter()
        if waiter is not None:
            self._opening += 1
            waiter.set_result(None)
        elif self._is_closing:
            self._check_all_returned()

    def _in_use(self) -> int:
        return len(self.connections) + self._opening - len(self._idle)

    def _check_all_returned(self) -> None:
        if not self._in_use():
            self._all_returned.set()

    def _close_unused(self) -> None:
        spare = max(0, min(self._fewest_idle, len(self.connections) - self._minimum))
        for connection in self._idle[:spare]:
            self.connections.discard(connection)
            connection.terminate()
        del self._idle[:spare]
        self._fewest_idle = len(self._idle)
        self._sweep = asyncio.get_running_loop().call_later(UNUSED_TIMEOUT, self._close_unused)


async def _close(connection: Connection) -> None:
    """Close a connection; Postgres may have closed it already."""
    with contextlib.suppress(*BROKEN_CONNECTION_ERRORS):
        await connection.close()
