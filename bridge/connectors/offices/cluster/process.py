"""The identity of a process among those of its node: a lease on its name, by which other processes know that
it is alive. Postgres releases the lease when the process ends, in whatever way.
"""

import secrets
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final

from storage.database import Database
from storage.session import Lease

_CLEANUP_LOCK: Final = "offices are beginning"
_SERVING_LOCK: Final = "offices are served"


class OfficeProcess:
    """It counts as alive between `start` and `close`."""

    def __init__(self, database: Database) -> None:
        self.name = secrets.token_hex(8)
        self._session = database.session
        self._alive: Lease | None = None
        self._serving: Lease | None = None

    async def start(self) -> None:
        self._alive = await self._session.acquire(_lock(self.name))

    async def renew(self) -> bool:
        """Acquire the lease again if it was lost, and return whether it was. Without the lease, other
        processes may treat this one as ended."""
        if self._alive is not None and self._alive.is_held:
            return False
        await self.start()
        return True

    async def claim_serving(self, *, with_others: bool) -> bool:
        """Return False if this process and another one serve offices but are not both connected to a broker.
        `with_others`: this process is connected to one."""
        self._serving = await self._session.try_lease(_SERVING_LOCK, shared=with_others)
        return self._serving is not None

    async def close(self) -> None:
        for lease in (self._alive, self._serving):
            if lease is not None:
                await lease.release()

    def cleanup_lock(self) -> AbstractAsyncContextManager[Lease]:
        """Held by one process at a time while it cleans up after ended processes."""
        return self._session.lease(_CLEANUP_LOCK)

    async def ended(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of the named processes that have ended."""
        ended = set()
        for name in frozenset(names) - {self.name}:
            lease = await self._session.try_lease(_lock(name))
            if lease is not None:
                ended.add(name)
                await lease.release()
        return frozenset(ended)


def _lock(name: str) -> str:
    return f"offices of {name}"
