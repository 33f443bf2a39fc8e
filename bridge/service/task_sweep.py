"""Finds what others have left: tasks of processes that are no more, and things that could not be done.

It looks at once when this process begins, when its connection was lost, and every few seconds.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from bridge.address import AgentAddress
from bridge.service.agent_queues import AgentQueues
from bridge.service.task_effects import TaskEffects
from bridge.service.task_lease import TASKS_AT_ONCE, TaskLease
from bridge.service.task_steps import TaskSteps
from bridge.service.task_store import TaskStore
from bridge.task import State, Task
from bridge.task_messages import Message, RunnerLost
from bridge.task_ports import TaskObserver
from storage import tasks
from storage.connecting import ConnectionLost
from storage.database import Database

SWEEP: Final = 15.0
KEPT_MS: Final = 7 * 24 * 3_600_000
"""For which answers are kept for requests that are repeated."""
FORGOTTEN_AT_ONCE: Final = 1_000


def runner_name(desk: int) -> str:
    """Of what runs in a process itself, and ends with it."""
    return f"desk-{desk}"


class TaskSweep:
    """`lost` is told of agents whose tasks were taken over: some may be gone since."""

    def __init__(
        self,
        database: Database,
        *,
        store: TaskStore,
        steps: TaskSteps,
        effects: TaskEffects,
        lease: TaskLease,
        queues: AgentQueues,
        lost: Callable[[Sequence[AgentAddress]], None],
        observer: TaskObserver,
        now_ms: Callable[[], int],
        every: float = SWEEP,
        kept_ms: int = KEPT_MS,
    ) -> None:
        self._database = database
        self._store = store
        self._steps = steps
        self._effects = effects
        self._lease = lease
        self._queues = queues
        self._lost = lost
        self._observer = observer
        self._now_ms = now_ms
        self._every = every
        self._kept_ms = kept_ms
        self._now = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def soon(self) -> None:
        self._now.set()

    async def sweep(self) -> None:
        await self._lease.each_orphan(self._take_over)
        await self._do_due()
        await self._queues.sweep()
        async with self._database.transaction() as connection:
            await tasks.prune(connection, self._now_ms() - self._kept_ms, FORGOTTEN_AT_ONCE)

    async def _run(self) -> None:
        while True:
            try:
                await self.sweep()
            except ConnectionLost:
                pass  # whoever needs it now says so
            except Exception as error:
                self._observer.problem("What is left of tasks could not be looked for.", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._now.wait()
            self._now.clear()

    async def _take_over(self, desk: int) -> None:
        """All that a desk has left, a page in a transaction."""
        after = 0
        while True:
            async with self._database.transaction() as connection:
                rows = await tasks.list_tasks_of_desk(connection, desk, after, TASKS_AT_ONCE)
                taken = []
                for row in rows:
                    task = self._store.read(row)
                    step = await self._steps.own(connection, task, _lost_with(task, desk))
                    if step is not None:
                        taken.append((task, step))
            for task, step in taken:
                self._steps.went(task, step)
            self._lost([step.task.request.to_address for _, step in taken if not step.task.state.is_final])
            if not rows:
                return
            after = rows[-1].id

    async def _do_due(self) -> None:
        """What this process could not do, or does not know that it has to: a commit may have been kept
        although its connection was lost."""
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await tasks.list_due_of_desk(connection, self._lease.number, after, TASKS_AT_ONCE)
            for row in rows:
                task = self._store.read(row)
                self._steps.watch(task)
                self._effects.do(task)
            if not rows:
                return
            after = rows[-1].id


def _lost_with(task: Task, desk: int) -> Message | None:
    """What was on its way to an agent may not have arrived; what ran in the process has ended with it."""
    if task.state is State.ACCEPTED or task.runner == runner_name(desk):
        return RunnerLost()
    return None
