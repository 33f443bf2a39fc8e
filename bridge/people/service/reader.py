"""Reads what happens in rooms under a name of its own, and goes on where it was, whatever is killed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bridge.matrix_side import MatrixSide
from bridge.service.session import Report
from federation.room_event import StreamedEvent, Wanted, everything
from storage.connecting import ConnectionLost
from storage.consumers import TakenOver
from storage.database import Database

AT_ONCE: Final = 50
AGAIN: Final = 0.5
"""Seconds until it reads again after the database was away."""

Handle = Callable[[Sequence[StreamedEvent]], Awaitable[None]]


class Reader:
    """`handle` may be given the same entries again, after a kill. What it raises, but for the database being
    away, is a mistake of one of the entries and must not hold up the others: it sees to that itself."""

    def __init__(
        self,
        side: MatrixSide,
        database: Database,
        name: str,
        handle: Handle,
        report: Report,
        *,
        wanted: Wanted = everything,
    ) -> None:
        self._side = side
        self._database = database
        self._name = name
        self._handle = handle
        self._report = report
        self._wanted = wanted
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._read()
            except (TakenOver, ConnectionLost):
                pass  # whoever reads now begins where this one has stopped
            except Exception as error:
                self._report(f"What is said in rooms is not heard by {self._name}.", error)
            await asyncio.sleep(AGAIN)

    async def _read(self) -> None:
        reading = self._side.subscription(self._name, from_now=True, wanted=self._wanted)
        async with reading as subscription:
            while True:
                entries = await subscription.next(AT_ONCE)
                await self._handle(entries)
                async with self._database.statements() as connection:
                    await subscription.advance(connection, entries[-1].position)
