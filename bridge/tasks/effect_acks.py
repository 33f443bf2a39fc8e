"""Remembers what was done of tasks, and tells the database a moment later: of many at once.

After a kill that much may be done again.
"""

import asyncio
from typing import Final

from cachetools import LRUCache

from bridge.tasks.messages import Due
from bridge.tasks.store import TaskStore
from bridge.tasks.task import Task
from storage.agents import tasks
from storage.concurrency import BackgroundTasks
from storage.database import Database

ONCE: Final = frozenset({Due.DELIVER, Due.CANCEL})
"""What is the same after a further step. An answer and what people see are not."""
MOST_ONCE: Final = 20_000
"""Of how many tasks it is remembered that this process has done that."""


class TaskTicks:
    """`pause`: seconds for which is gathered what was done."""

    def __init__(
        self, database: Database, store: TaskStore, background: BackgroundTasks, pause: float
    ) -> None:
        self._database = database
        self._store = store
        self._background = background
        self._pause = pause
        self._waiting: dict[int, tuple[int, set[Due]]] = {}
        self._once: LRUCache[tuple[int, Due], bool] = LRUCache(MOST_ONCE)
        self._something = asyncio.Event()
        self._telling = asyncio.Lock()

    def start(self) -> None:
        self._background.supervise("what was done of tasks", self._tell_next)

    async def flush(self) -> None:
        """Store what was done. Raises `ConnectionLost`: then it may be done again."""
        await self._tell()

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self._telling.locked()

    def done(self, task: Task, due: Due) -> None:
        if due in ONCE:
            self._once[task.id, due] = True  # whatever a step that follows says
        else:
            self._store.done(task, due)
        version, done = self._waiting.get(task.id, (task.version, set()))
        if version > task.version:
            if due not in ONCE:
                return  # it is due again since
        elif version < task.version:
            done = done & ONCE
        self._waiting[task.id] = max(version, task.version), done | {due}
        self._something.set()

    def leave_out_older(self, task: Task) -> None:
        """What was done of a step that another one has followed need not be ticked off: what is due now, that
        one has said. What is done once alone is taken on, where it has."""
        version, done = self._waiting.get(task.id, (task.version, set()))
        if version < task.version and not done & task.due & ONCE:
            del self._waiting[task.id]

    def was_done(self, task: Task, due: Due) -> bool:
        """A while ago, though the database may not know: a step that was taken meanwhile says it is due."""
        if due in ONCE:
            if self._once.get((task.id, due)) is None:
                return False
            self.done(task, due)
            return True
        version, done = self._waiting.get(task.id, (0, set()))
        return due in done and version >= task.version

    # -- inside --

    async def _tell_next(self) -> None:
        await self._something.wait()
        await asyncio.sleep(self._pause)
        self._something.clear()
        try:
            await self._tell()
        except Exception:
            self._something.set()
            raise

    async def _tell(self) -> None:
        async with self._telling:
            await self._tell_now()

    async def _tell_now(self) -> None:
        told, self._waiting = self._waiting, {}
        if not told:
            return
        try:
            async with self._database.autocommit() as connection:
                await tasks.clear_due(
                    connection,
                    [(number, version, sorted(done)) for number, (version, done) in sorted(told.items())],
                )
        except Exception:
            for number, (version, done) in told.items():
                known = self._waiting.get(number)
                if known is None:
                    self._waiting[number] = version, done
                elif known[0] == version:
                    known[1].update(done)
            raise
