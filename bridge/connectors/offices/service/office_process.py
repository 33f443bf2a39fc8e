"""By what other processes of this node know that this one is alive: a lock on its name, which ends with it,
however it ends.
"""

import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from federation.service.consumer_lease import ConsumerLease
from storage.consumers import try_lock_consumer, unlock_consumer
from storage.database import Database, Single

_BEGINNING: Final = "offices are beginning"
_SERVING: Final = "offices are served"


class OfficeProcess:
    """It is alive between `start` and `close`."""

    def __init__(self, database: Database) -> None:
        self.name = secrets.token_hex(8)
        self._database = database
        self._lease = ConsumerLease(database.address)
        self._alive = AsyncExitStack()
        self._session: Single | None = None

    async def start(self) -> None:
        await self._alive.enter_async_context(self._lease.held(_lock(self.name)))
        self._session = self._lease.session

    async def keep(self) -> bool:
        """Takes the lock again if Postgres has let go of it; whether it had. Until then others may think that
        this process has ended."""
        is_same = self._session is not None and self._lease.session is self._session
        if is_same and await self._lease.answers():
            return False
        await self._alive.aclose()
        await self.start()
        return True

    async def serves(self, *, with_others: bool) -> bool:
        """Whether no other process of the node serves offices without hearing this one, nor this one without
        hearing others."""
        return await self._lease.try_hold(_SERVING, shared=with_others)

    async def close(self) -> None:
        await self._alive.aclose()
        await self._lease.close()

    @asynccontextmanager
    async def beginning(self) -> AsyncIterator[None]:
        """One process at a time."""
        async with self._lease.held(_BEGINNING):
            yield

    async def ended(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these whose processes are no more."""
        ended = set()
        async with self._database.connection() as connection:
            for name in frozenset(names) - {self.name}:
                if await try_lock_consumer(connection, _lock(name)):
                    await unlock_consumer(connection, _lock(name))
                    ended.add(name)
        return frozenset(ended)


def _lock(name: str) -> str:
    return f"offices of {name}"
