"""By what other processes of this node know that this one is alive: a lease on its name, which ends with it,
however it ends.
"""

import secrets
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Final

from storage.database import Database
from storage.session import Lease

_BEGINNING: Final = "offices are beginning"
_SERVING: Final = "offices are served"


class OfficeProcess:
    """It is alive between `start` and `close`."""

    def __init__(self, database: Database) -> None:
        self.name = secrets.token_hex(8)
        self._session = database.session
        self._alive: Lease | None = None
        self._serving: Lease | None = None

    async def start(self) -> None:
        self._alive = await self._session.acquire(_lock(self.name))

    async def keep(self) -> bool:
        """Takes the lease again if it was lost; whether it was. Until then others may think that this process
        has ended."""
        if self._alive is not None and self._alive.is_held:
            return False
        await self.start()
        return True

    async def serves(self, *, with_others: bool) -> bool:
        """Whether no other process of the node serves offices without hearing this one, nor this one without
        hearing others."""
        self._serving = await self._session.try_lease(_SERVING, shared=with_others)
        return self._serving is not None

    async def close(self) -> None:
        for lease in (self._alive, self._serving):
            if lease is not None:
                await lease.release()

    def beginning(self) -> AbstractAsyncContextManager[Lease]:
        """One process at a time."""
        return self._session.lease(_BEGINNING)

    async def ended(self, names: Iterable[str]) -> frozenset[str]:
        """Those of these whose processes are no more."""
        ended = set()
        for name in frozenset(names) - {self.name}:
            lease = await self._session.try_lease(_lock(name))
            if lease is not None:
                ended.add(name)
                await lease.release()
        return frozenset(ended)


def _lock(name: str) -> str:
    return f"offices of {name}"
