"""Finds what is left over: tasks of processes that have ended, tasks of agents that are offline, and effects
that failed.

A sweep runs when the process starts, when its connection to Postgres was lost, and every few seconds.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.routing import Unknown
from bridge.agents.routing_table import RoutingTable
from bridge.tasks.effects import TaskEffects
from bridge.tasks.errors import ErrorCode
from bridge.tasks.lease import TaskLease
from bridge.tasks.messages import AgentUnavailable, Message, RunnerLost
from bridge.tasks.queues import AgentQueues
from bridge.tasks.steps import TaskSteps
from bridge.tasks.store import PAGE_SIZE, TaskStore
from bridge.tasks.task import State, Task
from storage.agents import tasks
from storage.concurrency import BackgroundTasks
from storage.database import Database

SWEEP_INTERVAL: Final = 15.0
RETENTION_MS: Final = 7 * 24 * 3_600_000
"""Time for which answers are stored, so that a repeated request gets them."""
PRUNE_LIMIT: Final = 1_000
ADDRESSES_PER_QUERY: Final = 500
REMOTE_ANSWER_TIMEOUT: Final = 5.0
"""Seconds for which the answer of another node is awaited after its agent went offline."""


def runner_name(process: int) -> str:
    """The runner name of tasks that run in the process itself and end with it."""
    # Databases of earlier versions contain this form.
    return f"desk-{process}"


class TaskSweep:
    def __init__(
        self,
        database: Database,
        *,
        store: TaskStore,
        steps: TaskSteps,
        effects: TaskEffects,
        lease: TaskLease,
        queues: AgentQueues,
        routes: RoutingTable,
        background: BackgroundTasks,
        now_ms: Callable[[], int],
        interval: float = SWEEP_INTERVAL,
        retention_ms: int = RETENTION_MS,
    ) -> None:
        self._database = database
        self._store = store
        self._steps = steps
        self._effects = effects
        self._lease = lease
        self._queues = queues
        self._routes = routes
        self._background = background
        self._now_ms = now_ms
        self._interval = interval
        self._retention_ms = retention_ms
        self._wake = asyncio.Event()

    def start(self) -> None:
        self._background.supervise("sweep of tasks", self._run)

    def wake(self) -> None:
        self._wake.set()

    async def sweep(self) -> None:
        await self._lease.take_over_orphans(self._take_over)
        await self._start_due_effects()
        await self._queues.sweep()
        async with self._database.transaction() as connection:
            await tasks.prune(connection, self._now_ms() - self._retention_ms, PRUNE_LIMIT)

    async def _run(self) -> None:
        await self.sweep()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._interval):
                await self._wake.wait()
        self._wake.clear()

    async def _take_over(self, process: int) -> None:
        """Take over all tasks of a process that has ended, one page per transaction."""
        after = 0
        while True:
            async with self._database.transaction() as connection:
                rows = await tasks.list_tasks_of_process(connection, process, after, PAGE_SIZE)
                steps = []
                for row in rows:
                    task = self._store.read(row)
                    step = await self._steps.take_over(connection, task, _orphan_message(task, process))
                    if step is not None:
                        steps.append((task, step))
            for task, step in steps:
                self._steps.committed(task, step)
            self._fail_if_lost([step.task.request.to_address for _, step in steps if not step.task.state.is_final])
            if not rows:
                return
            after = rows[-1].id

    # -- agents that are offline --

    def agents_offline(self, addresses: Sequence[AgentAddress]) -> None:
        """ "routes end, waiting tasks fail"."""
        if addresses:
            self._background.spawn("fail tasks of offline agents", self._fail_tasks_of_offline(addresses))

    def _fail_if_lost(self, addresses: Sequence[AgentAddress]) -> None:
        """Fail the tasks of agents that were lost while no process could do so. Agents that unregistered are
        skipped: the agents of this node do so at every stop."""
        agents = map(self._routes.agent, dict.fromkeys(addresses))
        self.agents_offline([agent.address for agent in agents if agent is not None and agent.is_lost])

    async def _fail_tasks_of_offline(self, addresses: Sequence[AgentAddress]) -> None:
        if await self._fail_tasks_of(addresses, wait_for_nodes=True):
            await asyncio.sleep(REMOTE_ANSWER_TIMEOUT)
            await self._fail_tasks_of(addresses)

    async def _fail_tasks_of(self, addresses: Sequence[AgentAddress], *, wait_for_nodes: bool = False) -> bool:
        """Fail the tasks of agents that are offline.

        With `wait_for_nodes`, skip tasks that another node is about to answer: it has just reported that
        their agent is offline, and knows whether they had started. Return whether there are such tasks.
        """
        is_awaited = False
        for begin in range(0, len(addresses), ADDRESSES_PER_QUERY):
            async for task in self._store.live_tasks_of(addresses[begin : begin + ADDRESSES_PER_QUERY]):
                route = self._routes.route(task.request.to_address)
                if not isinstance(route, Unknown):
                    continue
                if wait_for_nodes and task.elsewhere and route.code is ErrorCode.AGENT_NOT_FOUND:
                    is_awaited = True
                else:
                    await self._steps.apply(task.key, AgentUnavailable(route.error()))
        return is_awaited

    async def _start_due_effects(self) -> None:
        """Start the effects that are due and that this process has not started: they failed before, or the
        connection was lost during the commit."""
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await tasks.list_due_tasks_of_process(connection, self._lease.number, after, PAGE_SIZE)
            for row in rows:
                task = self._store.read(row)
                self._steps.watch(task)
                self._effects.start_due(task)
            if not rows:
                return
            after = rows[-1].id


def _orphan_message(task: Task, process: int) -> Message | None:
    """The message for a task of a process that has ended, if its delivery may have been lost or it ran in
    that process."""
    if task.state is State.ACCEPTED or task.runner == runner_name(process):
        return RunnerLost()
    return None
