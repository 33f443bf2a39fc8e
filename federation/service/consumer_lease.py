"""The session by which a process is the one that reads the stream under a name: as long as it lives, its
locks hold.

Ended in whatever way, `kill -9` included, it leaves them to the next process. Ended without the process
noticing, it leaves two of them reading; what the older one wants to commit is refused (`storage.consumers`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import asyncpg

from storage.address import DatabaseAddress
from storage.consumers import try_lock_consumer, try_share_consumer, unlock_consumer
from storage.database import Single, connect_once
from storage.errors import LocalError

ASKED_AGAIN: Final = 0.5
"""Seconds until a lock that another process has is asked for again."""
ANSWERED_WITHIN: Final = 5.0
"""Seconds after which a session that says nothing is one that has ended."""
_BROKEN: Final = (
    OSError, LocalError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError
)  # fmt: skip


class Held:
    """A lock of a lease, as it was taken."""

    def __init__(self, lease: "ConsumerLease") -> None:
        self._lease = lease
        self._session = lease.session

    @property
    def holds(self) -> bool:
        """False once its session has ended: somebody else may have the lock by now."""
        return self._session is not None and self._lease.session is self._session


class ConsumerLease:
    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._connection: Single | None = None
        self._using = asyncio.Lock()
        # Postgres gives a session its own lock twice, so that those of one process wait for each other here.
        self._readers: dict[str, asyncio.Lock] = {}

    @property
    def session(self) -> "Single | None":
        """The one by which its locks hold, unless it has ended."""
        connection = self._connection
        return None if connection is None or connection.is_closed() else connection

    async def answers(self) -> bool:
        """Whether the session is there still."""
        async with self._using:
            if self._connection is None or self._connection.is_closed():
                return False
            try:
                async with asyncio.timeout(ANSWERED_WITHIN):
                    await self._connection.execute("SELECT 1")
            except (*_BROKEN, TimeoutError):
                self._connection.terminate()
                self._connection = None
                return False
            return True

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_BROKEN):
                await connection.close(timeout=5.0)

    @contextlib.asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[Held]:
        """Wait until nobody else reads under the name."""
        async with self._readers.setdefault(name, asyncio.Lock()):
            while not await self._try_lock(name):  # noqa: ASYNC110 - it is another process's
                await asyncio.sleep(ASKED_AGAIN)
            try:
                yield Held(self)
            finally:
                await self._unlock(name)

    async def try_hold(self, name: str, *, shared: bool = False) -> bool:
        """Whether it can be had now: alone, or with all others that share it. It is until the session
        ends."""
        return await self._try_lock(name, shared=shared)

    async def _try_lock(self, name: str, *, shared: bool = False) -> bool:
        async with self._using:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await connect_once(self._address)
                take = try_share_consumer if shared else try_lock_consumer
                return await take(self._connection, name)
            except _BROKEN as error:
                # Postgres is away. Whoever waits for a lock waits for it too.
                self._leave_if_over(error)
                return False

    async def _unlock(self, name: str) -> None:
        """Of a session that has ended since there is nothing left to give back."""
        async with self._using:
            if self._connection is not None and not self._connection.is_closed():
                try:
                    await unlock_consumer(self._connection, name)
                except _BROKEN as error:
                    self._leave_if_over(error)

    def _leave_if_over(self, error: Exception) -> None:
        """So asyncpg says that the server has said its last word in this session: nothing more comes of it,
        although the connection may not have ended yet."""
        if isinstance(error, asyncpg.InternalClientError) and self._connection is not None:
            self._connection.terminate()
            self._connection = None
