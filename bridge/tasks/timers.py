"""The deadlines of the tasks that this process watches, with one timer for all of them."""

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


MAX_CONCURRENT: Final = 20
RETRY_MS: Final = 1_000
"""Delay before a deadline is handled again after an error."""


class TaskTimers:
    """Sends a task `Tick` when its deadline has passed."""

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
        # The time until which the timer sleeps; None while there is no deadline.
        self._asleep_until: int | None = None
        self._moved = asyncio.Event()

    def start(self, steps: "TaskSteps") -> None:
        self._steps = steps
        self._background.supervise("deadlines of tasks", self._run)

    def watch(self, task: Task) -> None:
        """Watch the task's next deadline, or stop watching if it has ended."""
        at_ms = task.next_deadline()
        if at_ms is None:
            self._remove(task.request.key)
        else:
            self._set(task.request.key, at_ms)

    def live(self, node_id: str) -> int:
        """How many tasks of a requesting node this process watches that have not ended."""
        return self._live[node_id]

    def live_total(self) -> int:
        return len(self._deadlines)

    def _set(self, key: TaskKey, at_ms: int) -> None:
        self._live[key.node_id] += key not in self._deadlines
        self._deadlines.set(key, at_ms)
        # A deadline that was moved later needs no notification: the timer wakes at the old time and sleeps
        # again. Most tasks end before their deadline.
        if self._asleep_until is None or at_ms < self._asleep_until:
            self._moved.set()

    def _remove(self, key: TaskKey) -> None:
        if key in self._deadlines:
            self._deadlines.remove(key)
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
        for begin in range(0, len(due), MAX_CONCURRENT):
            await asyncio.gather(*map(self._try, due[begin : begin + MAX_CONCURRENT]))

    async def _try(self, key: TaskKey) -> None:
        assert self._steps is not None, "it was started"
        try:
            task = await self._steps.apply(key, Tick())
        except Exception as error:
            self._report(f"The deadline of the task {key} has passed but could not be handled; it is retried.", error)
            self._set(key, self._now_ms() + RETRY_MS)
            return
        if task is not None:
            self.watch(task)
