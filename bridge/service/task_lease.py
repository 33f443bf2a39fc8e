"""By what other processes know that this one is alive and works on its tasks: a number, and a lock on it.

The lock ends with its session, however that ends. Then the tasks under the number are anybody's.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from bridge.service.session import Report, Session
from storage import tasks
from storage.address import DatabaseAddress
from storage.connecting import BROKEN
from storage.database import Single

TASKS_AT_ONCE: Final = 100
"""That are loaded together: each may hold a quarter of a megabyte."""

TakeOver = Callable[[int], Awaitable[None]]


class TaskLease:
    """`opened` is called whenever there is a new session: what was told meanwhile has been missed, and the
    number may be another one."""

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        opened: Callable[[], None],
        hear: Callable[[str], None],
        report: Report,
    ) -> None:
        self._told = opened
        self._number: int | None = None
        self._connection: Single | None = None
        self._using = asyncio.Lock()
        self._session = Session(address, tasks.CHANNEL, opened=self._opened, hear=hear, report=report)

    @property
    def number(self) -> int:
        """Under which this process takes its steps. If the session was lost a moment ago another process may
        take them over: nothing is run twice by that."""
        assert self._number is not None, "it was started"
        return self._number

    async def start(self) -> None:
        await self._session.start()

    async def close(self) -> None:
        """Whatever is left is anybody's now."""
        async with self._using:
            self._connection = None
        await self._session.close()

    async def each_orphan(self, take_over: TakeOver) -> None:
        """Take over the tasks of every desk that is no more. Nobody else does meanwhile."""
        async with self._using:
            connection = self._connection
            if connection is None:
                return
            with contextlib.suppress(*BROKEN):
                for number in await tasks.list_desks(connection):
                    if number == self._number or not await tasks.try_lock_desk(connection, number):
                        continue
                    try:
                        await take_over(number)
                    finally:
                        # A session that has ended meanwhile has nothing to give back, and must not hide that
                        # this process is to stop.
                        with contextlib.suppress(*BROKEN):
                            await tasks.unlock_desk(connection, number)

    async def _opened(self, connection: Single) -> None:
        """The same number again, if nobody has taken over meanwhile: what runs here goes on under it."""
        if self._number is None or not await tasks.try_lock_desk(connection, self._number):
            self._number = await tasks.next_desk(connection)
            locked = await tasks.try_lock_desk(connection, self._number)
            assert locked, "the number is new"
        async with self._using:
            self._connection = connection
        self._told()
