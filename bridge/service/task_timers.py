"""The deadlines of the tasks that this process looks after: one timer for all of them."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bridge.deadlines import Deadlines
from bridge.task import Task
from bridge.task_request import TaskKey

AT_ONCE: Final = 20
AGAIN_MS: Final = 1_000
"""After which a task is looked at again that could not be worked on when its time had come."""


class TaskTimers:
    """`tick` is called when a task's time has come. What it raises makes it be called again later."""

    def __init__(
        self,
        tick: Callable[[TaskKey], Awaitable[Any]],
        *,
        now_ms: Callable[[], int],
        report: Callable[[str, BaseException | None], None],
    ) -> None:
        self._tick = tick
        self._now_ms = now_ms
        self._report = report
        self._deadlines: Deadlines[TaskKey] = Deadlines()
        self._live: Counter[str] = Counter()
        # Until when nothing is looked at; None for ever, if nothing is there to come.
        self._asleep_until: int | None = None
        self._moved = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._pump = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

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
        while True:
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
        try:
            await self._tick(key)
        except Exception as error:
            self._report(f"The time of the task {key} has come, and nothing could be done.", error)
            self._set(key, self._now_ms() + AGAIN_MS)
