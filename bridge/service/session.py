"""A connection to Postgres of one's own that hears what other processes tell, and is opened again if it ends.

Locks that are taken in it hold as long as it does: ended in whatever way, `kill -9` included, it gives them
back.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

from storage.address import DatabaseAddress
from storage.database import Single, connect_once
from storage.errors import LocalError

RETRY: Final = 0.5
"""Seconds between two attempts to open it again."""

Report = Callable[[str, BaseException | None], None]

_BROKEN: Final = (
    OSError, LocalError, asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresError
)  # fmt: skip
"""An internal error is what asyncpg calls it when the server has said its last word in a session that has not
ended yet."""


class Session:
    """`opened` is called with each new connection, before anything is heard in it. `hear` is called with
    what others tell; what they told while there was no connection is lost, so `opened` also looks for it."""

    def __init__(
        self,
        address: DatabaseAddress,
        channel: str,
        *,
        opened: Callable[[Single], Awaitable[None]],
        hear: Callable[[str], None],
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._address = address
        self._channel = channel
        self._opened = opened
        self._hear = hear
        self._report = report
        self._connection: Single | None = None
        self._ended = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """LocalError when there is no connection at all."""
        await self._open()
        self._keeper = asyncio.create_task(self._keep_open())

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        await self._end()

    async def _open(self) -> None:
        connection = await connect_once(self._address)
        self._ended.clear()
        self._connection = connection
        try:
            connection.add_termination_listener(self._terminated)
            await connection.add_listener(self._channel, self._notified)
            await self._opened(connection)
        except BaseException:
            await self._end()
            raise

    async def _keep_open(self) -> None:
        while True:
            await self._ended.wait()
            try:
                await self._open()
            except _BROKEN as error:
                self._ended.set()
                self._report(f"What other processes tell on {self._channel} is not heard.", error)
                await asyncio.sleep(RETRY)

    async def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(*_BROKEN):
                await connection.close(timeout=5.0)

    def _notified(self, connection: object, pid: int, channel: str, payload: object) -> None:
        self._hear(str(payload))

    def _terminated(self, connection: object) -> None:
        if connection is self._connection:
            self._ended.set()
