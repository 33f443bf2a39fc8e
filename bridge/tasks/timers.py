"""The deadlines of the tasks that this process looks after: one timer for all of them."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bridge.tasks.deadlines import Deadlines
from bridge.tasks.messages import Tick
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from storage.concurrency import BackgroundTasks

if TYPE_CHECKING:
    from bridge.tasks.steps import TaskSteps


AT_ONCE: Final = 20
AGAIN_MS: Final = 1_000
"""After which a task is looked at again that could not be worked on when its time had come."""


class TaskTimers:
    """A task whose time has come takes a step. One that fails is tried again later."""

    def __init__(
        self,
        *,
        now_ms: Callable[[], int],
        background: BackgroundTasks,
        report: Callable[[str, BaseException | None], None],
    ) -> None:
        self._steps: TaskSteps | None = None
        self._now_ms = now_ms
        self._background = background
        self._report = report
        self._deadlines: Deadlines[TaskKey] = Deadlines()
        self._live: Counter[str] = Counter()
        # Until when nothing is looked at; None for ever, if nothing is there to come.
        self._asleep_until: int | None = None
        self._moved = asyncio.Event()

    def start(self, steps: "TaskSteps") -> None:
        self._steps = steps
        self._background.supervise("deadlines of tasks", self._run)

    def watch(self, task: Task) -> None:
        """It is in this state now."""
        at_ms = task.next_deadline()
        if at_ms is None:
            self._forget(task.request.key)
        else:
            self._set(task.request.key, at_ms)

    def live(self, node_id: str) -> int:
        """How many tasks that have not ended a node has asked for, of those that are looked after here."""
        return self._live[node_id]

    def live_of_all(self) -> int:
        return len(self._deadlines)

    def _set(self, key: TaskKey, at_ms: int) -> None:
        self._live[key.node_id] += key not in self._deadlines
        self._deadlines.set(key, at_ms)
        # For a later time it is woken too early, and goes on sleeping. Most tasks end before theirs.
        if self._asleep_until is None or at_ms < self._asleep_until:
            self._moved.set()

    def _forget(self, key: TaskKey) -> None:
        if key in self._deadlines:
            self._deadlines.forget(key)
            self._ended(key)

    def _ended(self, key: TaskKey) -> None:
        self._live[key.node_id] -= 1
        if not self._live[key.node_id]:
            del self._live[key.node_id]

    async def _run(self) -> None:
        at_ms = self._asleep_until = self._deadlines.next()
        wait = None if at_ms is None else max(0, at_ms - self._now_ms()) / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._moved.wait()
        self._moved.clear()
        due = self._deadlines.take_due(self._now_ms())
        for key in due:
            self._ended(key)
        for begin in range(0, len(due), AT_ONCE):
            await asyncio.gather(*map(self._try, due[begin : begin + AT_ONCE]))

    async def _try(self, key: TaskKey) -> None:
        assert self._steps is not None, "it was started"
        try:
            task = await self._steps.take(key, Tick())
        except Exception as error:
            self._report(f"The time of the task {key} has come, and nothing could be done.", error)
            self._set(key, self._now_ms() + AGAIN_MS)
            return
        if task is not None:
            self.watch(task)
