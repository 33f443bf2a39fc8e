"""Remembers what was done of tasks, and tells the database a moment later: of many at once.

After a kill that much may be done again.
"""

import asyncio
from typing import Final

from bridge.service.session import Report
from bridge.service.task_store import TaskStore
from bridge.task import Task
from bridge.task_messages import Due
from federation.bounded_cache import BoundedCache
from storage import tasks
from storage.connecting import ConnectionLost
from storage.database import Database

ONCE: Final = frozenset({Due.DELIVER, Due.CANCEL})
"""What is the same after a further step. An answer and what people see are not."""
MOST_ONCE: Final = 20_000
"""Of how many tasks it is remembered that this process has done that."""
AGAIN: Final = 0.5
"""Seconds until it is tried again after Postgres has refused."""


class TaskTicks:
    """`pause`: seconds for which is gathered what was done. `report` is told when it cannot be told."""

    def __init__(
        self,
        database: Database,
        store: TaskStore,
        pause: float,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._database = database
        self._store = store
        self._pause = pause
        self._report = report
        self._waiting: dict[int, tuple[int, set[Due]]] = {}
        self._once: BoundedCache[tuple[int, Due], bool] = BoundedCache(MOST_ONCE)
        self._something = asyncio.Event()
        self._telling = asyncio.Lock()
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._worker = asyncio.create_task(self._tell_for_ever())

    async def close(self) -> None:
        """Raises `ConnectionLost`: then what was done may be done again."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)
        await self._tell()

    def done(self, task: Task, due: Due) -> None:
        if due in ONCE:
            self._once.put((task.id, due), True)  # whatever a step that follows says
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

    async def _tell_for_ever(self) -> None:
        while True:
            await self._something.wait()
            await asyncio.sleep(self._pause)
            self._something.clear()
            try:
                await self._tell()
            except ConnectionLost:
                self._something.set()
            except Exception as error:
                # Of a mistake nobody else would hear, and what waits would only grow.
                self._report("What was done of tasks is not remembered, and may be done again.", error)
                self._something.set()
                await asyncio.sleep(AGAIN)

    async def _tell(self) -> None:
        async with self._telling:
            await self._tell_now()

    async def _tell_now(self) -> None:
        told, self._waiting = self._waiting, {}
        if not told:
            return
        try:
            async with self._database.statements() as connection:
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
