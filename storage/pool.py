"""The connections that a node shares: taking one and giving it back are a few plain calls.

asyncpg's own pool makes a proxy, a timer, a shielded task and a turn of the loop of it, four times as many
calls as the statement for which a connection is mostly taken. Here the one that was given back last is taken
first, so that what is warm in this process and in Postgres stays warm.
"""

import asyncio
import contextlib
from collections import deque

import asyncpg

from storage.connect import BROKEN, DatabaseAddress, Single, open_connection

UNUSED = 300.0  # seconds: after as long a connection that nobody needed is closed


class Pool:
    """At most `maximum` connections, opened when they are needed. Those who find none are served in the order
    in which they came."""

    def __init__(
        self, address: DatabaseAddress, *, minimum: int, maximum: int, connect_timeout: float
    ) -> None:
        self.address = address
        self.maximum = maximum
        self.connections: set[Single] = set()
        self._minimum = minimum
        self._connect_timeout = connect_timeout
        # The last one is the next to be taken.
        self._idle: list[Single] = []
        # How many were idle at any time since somebody looked: so many at the beginning were not needed.
        self._fewest = 0
        self._opening = 0
        # Whoever waits is handed a connection, or None: the place of one, counted as being opened. While
        # somebody waits no connection is idle and no place is free.
        self._waiting: deque[asyncio.Future[Single | None]] = deque()
        self._is_closing = False
        self._all_back = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Opens as many as there are to be always."""
        while len(self.connections) < self._minimum:
            self._opening += 1
            self.give_back(await self._open())
        self._close_unused()

    async def close(self) -> None:
        """Waits for those who use a connection to give it back, and for those who are in the queue."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._sweep is not None:
            self._sweep.cancel()
        try:
            if self._in_use():
                await self._all_back.wait()
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
        """How many connections there are, and how many of them are idle."""
        return (
            sum(not connection.is_closed() for connection in self.connections),
            sum(not connection.is_closed() for connection in self._idle),
        )

    def idle(self) -> "Single | None":
        """Take one that nobody uses, if there is one."""
        idle = self._idle
        while idle and not self._is_closing:
            connection = idle.pop()
            if len(idle) < self._fewest:
                self._fewest = len(idle)
            if not connection.is_closed():
                return connection
            self.connections.discard(connection)
        return None

    async def take(self) -> Single:
        """Take one, and wait until there is one."""
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

    def give_back(self, connection: Single) -> None:
        """Whoever takes it next finds it as it is: nothing may be under way on it."""
        waiter = self._next() if self._waiting else None
        if waiter is not None:
            waiter.set_result(connection)
        else:
            self._idle.append(connection)
            if self._is_closing:
                self._tell_if_all_are_back()

    def drop(self, connection: Single) -> None:
        """Instead of giving it back: it is of no use any more."""
        connection.terminate()
        self.connections.discard(connection)
        self._free_a_place()

    async def _open(self) -> Single:
        """In a place that is counted as being opened."""
        try:
            connection = await open_connection(self.address, connect_timeout=self._connect_timeout)
        except BaseException:
            self._opening -= 1
            self._free_a_place()
            raise
        self._opening -= 1
        self.connections.add(connection)
        return connection

    async def _wait(self) -> "Single | None":
        waiter: asyncio.Future[Single | None] = asyncio.get_running_loop().create_future()
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
                self._free_a_place()
            raise

    def _next(self) -> "asyncio.Future[Single | None] | None":
        for waiter in self._waiting:
            if not waiter.cancelled():
                self._waiting.remove(waiter)
                return waiter
        return None

    def _free_a_place(self) -> None:
        waiter = self._next()
        if waiter is not None:
            self._opening += 1
            waiter.set_result(None)
        elif self._is_closing:
            self._tell_if_all_are_back()

    def _in_use(self) -> int:
        return len(self.connections) + self._opening - len(self._idle)

    def _tell_if_all_are_back(self) -> None:
        if not self._in_use():
            self._all_back.set()

    def _close_unused(self) -> None:
        spare = max(0, min(self._fewest, len(self.connections) - self._minimum))
        for connection in self._idle[:spare]:
            self.connections.discard(connection)
            connection.terminate()
        del self._idle[:spare]
        self._fewest = len(self._idle)
        self._sweep = asyncio.get_running_loop().call_later(UNUSED, self._close_unused)


async def _close(connection: Single) -> None:
    """Of one that Postgres has ended already nothing is left to be said."""
    with contextlib.suppress(*BROKEN):
        await connection.close()
