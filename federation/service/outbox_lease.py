"""The session by which a process is the one that sends to a server: as long as it lives, its locks hold.

Ended in whatever way, `kill -9` included, it leaves them to the next process. It also hears what other
processes have queued for the servers that this one sends to.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

import asyncpg

from storage import outbox
from storage.address import DatabaseAddress
from storage.database import Single, connect_once

# An internal error is what asyncpg calls it when the server has said its last word in a session that has not
# ended yet.
_BROKEN: Final = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError)


class LeaseLost(Exception):
    """The session has ended, and with it every lock."""


class OutboxLease:
    """`hear` is called with each notification, `lost` when the session has ended by itself."""

    def __init__(
        self, address: DatabaseAddress, hear: Callable[[str], None], lost: Callable[[], None]
    ) -> None:
        self._address = address
        self._hear = hear
        self._lost = lost
        self._connection: Single | None = None
        self._using = asyncio.Lock()

    async def open(self) -> None:
        connection = await connect_once(self._address)
        try:
            await connection.add_listener(outbox.CHANNEL, self._notified)
        except BaseException:
            connection.terminate()
            raise
        connection.add_termination_listener(self._terminated)
        self._connection = connection

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_BROKEN):
                await connection.close(timeout=5.0)

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def try_lock(self, destination: str) -> "Single | None":
        """The session in which this process now sends to that server; None when another process does. Raises
        `LeaseLost`."""
        async with self._using:
            session = self._session()
            try:
                locked = await outbox.try_lock_destination(session, destination)
            except _BROKEN as error:
                raise LeaseLost from error
        return session if locked else None

    async def unlock(self, destination: str, session: Single) -> None:
        """Of a session that has ended since there is nothing left to give back."""
        async with self._using:
            if session is self._connection:
                with contextlib.suppress(*_BROKEN):
                    await outbox.unlock_destination(session, destination)

    def _session(self) -> Single:
        if self._connection is None or self._connection.is_closed():
            raise LeaseLost
        return self._connection

    def _notified(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self._hear(str(payload))

    def _terminated(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self._lost()
