"""Waits for the transactions of the database in which something was queued.

What a transaction has queued is not there before it has ended, and whoever queues does not end it. The pool
tells of those that it has committed itself. Of all others, and of those that were lost in the end, Postgres
is asked what became of them.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from storage import outbox
from storage.connecting import ConnectionLost
from storage.database import Connection, Database

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
        # Of those the pool does not tell.
        self._asked_for: set[str] = set()
        self._added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def add(self, written_by: str, items: list[T], connection: "Connection | None" = None) -> None:
        """`written_by` is the transaction's id, `connection` the one that it is on."""
        if written_by not in self._waiting:
            self._waiting[written_by] = []
            told = connection is not None and self._database.after_commit(
                connection, partial(self._tell, written_by)
            )
            if not told:
                self._asked_for.add(written_by)
        self._waiting[written_by].extend(items)
        self._added.set()

    def _tell(self, written_by: str) -> None:
        items = self._waiting.pop(written_by, None)
        self._asked_for.discard(written_by)
        if items is not None:
            self._committed(items)

    async def _run(self) -> None:
        pause = SHORTEST
        while True:
            await self._added.wait()
            # The hook that added this is most often the last thing before the end.
            await asyncio.sleep(pause if self._asked_for else LONGEST)
            if self._waiting:
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
            if state == "committed":
                self._tell(written_by)
            else:
                self._waiting.pop(written_by, None)
                self._asked_for.discard(written_by)
        return bool(ended)
