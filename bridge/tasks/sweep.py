"""Finds what others have left: tasks of processes that have ended, tasks of agents that have gone, and
effects that could not be done.

It looks at once when this process begins, when its connection was lost, and every few seconds.
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
from bridge.tasks.messages import AgentGone, Message, RunnerLost
from bridge.tasks.queues import AgentQueues
from bridge.tasks.steps import TaskSteps
from bridge.tasks.store import LOADED_AT_ONCE, TaskStore
from bridge.tasks.task import State, Task
from storage.agents import tasks
from storage.concurrency import BackgroundTasks
from storage.database import Database

SWEEP: Final = 15.0
KEPT_MS: Final = 7 * 24 * 3_600_000
"""For which answers are kept for requests that are repeated."""
FORGOTTEN_AT_ONCE: Final = 1_000
LOST_AT_ONCE: Final = 500
ANSWERED_WITHIN: Final = 5.0
"""Seconds for which the answer of another node is waited for whose agent has gone."""


def runner_name(desk: int) -> str:
    """Of what runs in a process itself, and ends with it."""
    return f"desk-{desk}"


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
        every: float = SWEEP,
        kept_ms: int = KEPT_MS,
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
        self._every = every
        self._kept_ms = kept_ms
        self._now = asyncio.Event()

    def start(self) -> None:
        self._background.supervise("what others left of tasks", self._run)

    def soon(self) -> None:
        self._now.set()

    async def sweep(self) -> None:
        await self._lease.each_orphan(self._take_over)
        await self._do_due()
        await self._queues.sweep()
        async with self._database.transaction() as connection:
            await tasks.prune(connection, self._now_ms() - self._kept_ms, FORGOTTEN_AT_ONCE)

    async def _run(self) -> None:
        await self.sweep()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._every):
                await self._now.wait()
        self._now.clear()

    async def _take_over(self, desk: int) -> None:
        """All that a desk has left, a page in a transaction."""
        after = 0
        while True:
            async with self._database.transaction() as connection:
                rows = await tasks.list_tasks_of_process(connection, desk, after, LOADED_AT_ONCE)
                taken = []
                for row in rows:
                    task = self._store.read(row)
                    step = await self._steps.own(connection, task, _lost_with(task, desk))
                    if step is not None:
                        taken.append((task, step))
            for task, step in taken:
                self._steps.went(task, step)
            self._fail_if_lost(
                [step.task.request.to_address for _, step in taken if not step.task.state.is_final]
            )
            if not rows:
                return
            after = rows[-1].id

    # -- agents that have gone --

    def agents_gone(self, addresses: Sequence[AgentAddress]) -> None:
        """ "routes end, waiting tasks fail"."""
        if addresses:
            self._background.spawn("fail tasks", self._fail_tasks_of_gone(addresses))

    def _fail_if_lost(self, addresses: Sequence[AgentAddress]) -> None:
        """Agents that were lost while no process could fail their tasks. Those that left in good order are
        not meant: this node's own do whenever it stops."""
        agents = map(self._routes.agent, dict.fromkeys(addresses))
        self.agents_gone([agent.address for agent in agents if agent is not None and agent.is_lost])

    async def _fail_tasks_of_gone(self, addresses: Sequence[AgentAddress]) -> None:
        if await self._fail_tasks_of(addresses, wait_for_nodes=True):
            await asyncio.sleep(ANSWERED_WITHIN)
            await self._fail_tasks_of(addresses)

    async def _fail_tasks_of(
        self, addresses: Sequence[AgentAddress], *, wait_for_nodes: bool = False
    ) -> bool:
        """Whether there are tasks that another node is about to answer: it has just said that their agent has
        gone, and it knows whether they had begun."""
        waits = False
        for begin in range(0, len(addresses), LOST_AT_ONCE):
            async for task in self._store.live_of(addresses[begin : begin + LOST_AT_ONCE]):
                route = self._routes.route(task.request.to_address)
                if not isinstance(route, Unknown):
                    continue
                if wait_for_nodes and task.elsewhere and route.code is ErrorCode.AGENT_NOT_FOUND:
                    waits = True
                else:
                    await self._steps.take(task.key, AgentGone(route.error()))
        return waits

    async def _do_due(self) -> None:
        """What this process could not do, or does not know that it has to: a commit may have been kept
        although its connection was lost."""
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await tasks.list_due_tasks_of_process(
                    connection, self._lease.number, after, LOADED_AT_ONCE
                )
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
