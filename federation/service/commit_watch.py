"""Waits for the transactions of the database in which something was queued.

What a transaction has queued is not there before it has ended, and whoever queues does not end it. So
Postgres is asked what became of it.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from storage import outbox
from storage.connecting import ConnectionLost
from storage.database import Database

T = TypeVar("T")

SHORTEST: Final = 0.002
LONGEST: Final = 0.1
"""Seconds between two looks. They grow as long as nothing ends."""


class CommitWatch(Generic[T]):
    """`committed` is called with what was added, once its transaction has been committed."""

    def __init__(self, database: Database, committed: Callable[[list[T]], None]) -> None:
        self._database = database
        self._committed = committed
        self._waiting: dict[str, list[T]] = {}
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def add(self, written_by: str, items: list[T]) -> None:
        """`written_by` is the transaction's id."""
        self._waiting.setdefault(written_by, []).extend(items)
        self._added.set()

    async def _run(self) -> None:
        pause = SHORTEST
        while True:
            await self._added.wait()
            # The hook that added this is most often the last thing before the end.
            await asyncio.sleep(pause)
            pause = SHORTEST if await self._look() else min(2 * pause, LONGEST)
            if not self._waiting:
                self._added.clear()
                pause = SHORTEST

    async def _look(self) -> bool:
        """Whether something has ended."""
        try:
            async with self._database.transaction(readonly=True) as connection:
                states = await outbox.transaction_states(connection, list(self._waiting))
        except ConnectionLost:
            return False
        ended = {written_by: state for written_by, state in states.items() if state != "in progress"}
        for written_by, state in ended.items():
            items = self._waiting.pop(written_by)
            if state == "committed":
                self._committed(items)
        return bool(ended)
