"""Records which effects of tasks are done, and writes that to the database in batches.

If the process is killed before it writes, those effects are performed again.
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

ONCE_PER_TASK: Final = frozenset({Due.DELIVER, Due.CANCEL})
"""Effects that are done once for a task, whatever steps follow. Answers and what people see change with later
steps."""
MAX_CACHED_ONCE: Final = 20_000
"""Tasks for which the process remembers that such an effect is done."""


class EffectAcks:
    """`pause`: seconds for which acknowledgements are collected before they are written."""

    def __init__(self, database: Database, store: TaskStore, background: BackgroundTasks, pause: float) -> None:
        self._database = database
        self._store = store
        self._background = background
        self._pause = pause
        self._pending: dict[int, tuple[int, set[Due]]] = {}
        self._once: LRUCache[tuple[int, Due], bool] = LRUCache(MAX_CACHED_ONCE)
        self._has_pending = asyncio.Event()
        self._writing = asyncio.Lock()

    def start(self) -> None:
        self._background.supervise("acknowledgement of task effects", self._write_next)

    async def flush(self) -> None:
        """Write what is pending. Raises `ConnectionLost`; then the effects may be performed again."""
        await self._write()

    @property
    def is_idle(self) -> bool:
        return not self._pending and not self._writing.locked()

    def record(self, task: Task, due: Due) -> None:
        if due in ONCE_PER_TASK:
            self._once[task.id, due] = True  # also if a later step says that it is due
        else:
            self._store.mark_done(task, due)
        version, done = self._pending.get(task.id, (task.version, set()))
        if version > task.version:
            if due not in ONCE_PER_TASK:
                return  # a later step has made it due again
        elif version < task.version:
            done = done & ONCE_PER_TASK
        self._pending[task.id] = max(version, task.version), done | {due}
        self._has_pending.set()

    def discard_outdated(self, task: Task) -> None:
        """Drop pending acknowledgements of an older step: the newer step says what is due. Those of effects
        that are done once per task are kept if the newer step still has them due."""
        version, done = self._pending.get(task.id, (task.version, set()))
        if version < task.version and not done & task.due & ONCE_PER_TASK:
            del self._pending[task.id]

    def is_done(self, task: Task, due: Due) -> bool:
        """Whether the effect is done, although the stored task may still have it due."""
        if due in ONCE_PER_TASK:
            if self._once.get((task.id, due)) is None:
                return False
            self.record(task, due)
            return True
        version, done = self._pending.get(task.id, (0, set()))
        return due in done and version >= task.version

    # -- writing --

    async def _write_next(self) -> None:
        await self._has_pending.wait()
        await asyncio.sleep(self._pause)
        self._has_pending.clear()
        try:
            await self._write()
        except Exception:
            self._has_pending.set()
            raise

    async def _write(self) -> None:
        async with self._writing:
            await self._write_pending()

    async def _write_pending(self) -> None:
        batch, self._pending = self._pending, {}
        if not batch:
            return
        try:
            async with self._database.autocommit() as connection:
                await tasks.clear_due(
                    connection, [(number, version, sorted(done)) for number, (version, done) in sorted(batch.items())]
                )
        except Exception:
            for number, (version, done) in batch.items():
                known = self._pending.get(number)
                if known is None:
                    self._pending[number] = version, done
                elif known[0] == version:
                    known[1].update(done)
            raise
