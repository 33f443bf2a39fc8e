"""The desk: tasks come in, go to their agents, and are answered, whatever is killed when.

For everything that happens the task is loaded, its machine decides, the step is stored, and only then is done
what follows from it. A step that another process was quicker with is decided again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.agent_queue import AgentSettings
from bridge.agent_status import AgentStatus
from bridge.routing import Local, Remote, Unknown
from bridge.service.agent_queues import AgentQueues
from bridge.service.routing_table import Change
from bridge.service.task_effects import Ports, TaskEffects
from bridge.service.task_intake import Submitted, TaskIntake
from bridge.service.task_lease import TASKS_AT_ONCE, TaskLease
from bridge.service.task_notice import TaskNotices
from bridge.service.task_steps import AgentDuty, TaskSteps
from bridge.service.task_store import Keep, TaskStore, storable
from bridge.service.task_sweep import KEPT_MS, SWEEP, TaskSweep, runner_name
from bridge.service.task_timers import TaskTimers
from bridge.task import State, Task
from bridge.task_answer import Answer, kept
from bridge.task_error import TaskError
from bridge.task_limits import TaskLimiter, TaskLimits
from bridge.task_messages import (
    AgentGone,
    Cancel,
    Dropped,
    Due,
    Error,
    Message,
    Progress,
    Renew,
    Result,
    Start,
    Tick,
    Unreachable,
)
from bridge.task_ports import SettingsOf
from bridge.task_request import TaskKey, TaskRequest, encoded
from storage import tasks
from storage.consumers import Place
from storage.database import Connection, Database
from storage.tasks import ProgressRow

IN_THIS_PROCESS: Final = frozenset({Due.DELIVER, Due.CANCEL})
"""What needs the process to which the agent is attached."""
MOST_PROGRESS_BYTES: Final = 16_384
LOST_AT_ONCE: Final = 500


def one_at_a_time(agent: Agent) -> AgentSettings:
    """For agents that say nothing of it."""
    return AgentSettings()


def no_duty(agent: AgentAddress, message: object, task_id: str | None = None) -> None:
    """Nobody has to know what agents do."""


class TaskDesk:
    def __init__(
        self,
        database: Database,
        ports: Ports,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        limits: TaskLimits | None = None,
        settings_of: SettingsOf = one_at_a_time,
        duty: AgentDuty = no_duty,
        sweep: float = SWEEP,
        kept_ms: int = KEPT_MS,
    ) -> None:
        self._database = database
        self._ports = ports
        self._now_ms = now_ms
        self._limits = limits or TaskLimits()
        observer = ports.observer
        self._store = TaskStore(database)
        self._notices = TaskNotices(database)
        self._lease = TaskLease(
            database.address, opened=self._session_opened, hear=self._heard, report=observer.problem
        )
        self._effects = TaskEffects(
            database, self._store, ports, happened=self._happened, not_here=self._notices.tell
        )
        self._timers = TaskTimers(self._tick, now_ms=now_ms, report=observer.problem)
        self._queues = AgentQueues(
            database,
            store=self._store,
            routes=ports.routes,
            settings_of=settings_of,
            observer=observer,
            now_ms=now_ms,
            duty=duty,
        )
        self._steps = TaskSteps(
            database,
            store=self._store,
            effects=self._effects,
            timers=self._timers,
            lease=self._lease,
            observer=observer,
            now_ms=now_ms,
            ended=self._queues.ended,
            waits=self._waits,
            duty=duty,
        )
        self._sweep = TaskSweep(
            database,
            store=self._store,
            steps=self._steps,
            effects=self._effects,
            lease=self._lease,
            queues=self._queues,
            lost=self._look_after_lost,
            observer=observer,
            now_ms=now_ms,
            every=sweep,
            kept_ms=kept_ms,
        )
        self._intake = TaskIntake(
            database,
            store=self._store,
            steps=self._steps,
            queues=self._queues,
            timers=self._timers,
            lease=self._lease,
            routes=ports.routes,
            limiter=TaskLimiter(self._limits),
            now_ms=now_ms,
            monotonic=monotonic,
        )
        # An answer that is read next, perhaps, and what is taken of it.
        self._foreseen: tuple[Answer, Result] | None = None
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Go on with everything that was left. The connectors must be there."""
        await self._lease.start()
        self._effects.start()
        self._timers.start()
        self._notices.start()
        self._queues.start(self._steps)
        self._sweep.start()

    async def close(self) -> None:
        """Stop in the middle of things; nothing is lost by it."""
        await self._sweep.close()
        await self._queues.close()
        await self._timers.close()
        for work in self._background:
            work.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._effects.close()
        await self._notices.close()
        await self._lease.close()

    # -- tasks come in --

    async def submit(self, request: TaskRequest) -> Submitted:
        """In a transaction of its own. On return the task is stored, and on its way."""
        # The queue of an agent of this node is looked at, and stays so until the task is in it. For an agent
        # of another node the task is one row, and nothing else.
        database = self._database
        is_one = isinstance(self._ports.routes.route(request.to_address), Remote)
        async with database.statements() if is_one else database.transaction() as connection:
            submitted = await self.take_in(connection, request)
        self.go_on(submitted)
        return submitted

    async def take_in(
        self, connection: Connection, request: TaskRequest, *, is_allowed: bool = False
    ) -> Submitted:
        """In the transaction of the caller, who calls `go_on` after its end: so that a reader's cursor is
        kept with it. "a repeated request id gets the stored answer". `is_allowed`: `take_in_with` has found
        it to be within the limits."""
        return await self._intake.take_in(connection, request, is_allowed=is_allowed)

    async def take_in_read(self, request: TaskRequest, place: Place) -> Submitted | None:
        """What most often becomes of a request that was read, by one statement with the reader's place; then
        it is on its way. None, or a refusal: nothing was written, not even the place. Raises `TakenOver`."""
        return await self.take_in_with(request, partial(tasks.accept_task, place=place))

    async def take_in_with(self, request: TaskRequest, keep: Keep) -> Submitted | None:
        """The same with what else `keep` writes by that statement."""
        submitted = await self._intake.take_at_once(request, keep)
        if submitted is not None:
            self.go_on(submitted)
        return submitted

    def foresee_request(self, request: TaskRequest) -> None:
        """It may come to `take_in_read` in a moment, this very object, or not."""
        self._intake.foresee(request)

    def go_on(self, submitted: Submitted) -> None:
        """The transaction in which it was taken in has been committed."""
        if submitted.step is not None:
            self._steps.went(submitted.before, submitted.step)

    # -- what agents and their nodes say; `by` is who says so, if that is to be looked at --

    async def begin(
        self,
        key: TaskKey,
        *,
        runner: str | None = None,
        lease_until: int | None = None,
        by: AgentAddress | None = None,
    ) -> Task | None:
        """The step without which nothing may be run. None: another runner has it, or it is over.

        Without a runner it is run by this process, and lost with it. One that may outlive this process has a
        name of its own, and a lease that it renews.
        """
        name = runner_name(self._lease.number) if runner is None else runner
        task = await self._steps.take(key, Start(name, lease_until), by=by)
        is_ours = task is not None and task.state is State.RUNNING and task.runner == name
        return task if is_ours else None

    async def renew(self, key: TaskKey, runner: str, lease_until: int) -> Task | None:
        return await self._steps.take(key, Renew(runner, lease_until))

    async def progress(
        self, key: TaskKey, content: Mapping[str, Any], *, by: AgentAddress | None = None
    ) -> Task | None:
        """What is too long, or no JSON, is not taken."""
        size = len(encoded(content) or b"")
        if not 0 < size <= MOST_PROGRESS_BYTES:
            self._ports.observer.dropped(self._store.remembered(key), Dropped("progress", "it is too long"))
            return None
        return await self._steps.take(key, Progress(content), by=by)

    async def finish(
        self, key: TaskKey, answer: Answer, *, runner: str | None = None, by: AgentAddress | None = None
    ) -> Task | None:
        """What is too long is cut. A second answer, or a late one, changes nothing.

        With a runner the task need not have been begun: this begins and ends it in one step. None: it is
        another runner's, or has ended otherwise.
        """
        result = Result(kept(answer, self._limits.most_output_bytes), runner)
        task = await self._steps.take(key, result, by=by)
        if runner is None or task is None:
            return task
        return task if (task.runner, task.answer) == (runner, result.answer) else None

    async def finish_read(self, key: TaskKey, answer: Answer, place: Place, *, by: AgentAddress) -> bool:
        """The same for an answer that was read, by one statement with the reader's place. False: it is not
        that simple, and nothing was written. Raises `TakenOver`."""
        foreseen, self._foreseen = self._foreseen, None
        if foreseen is not None and foreseen[0] is answer:
            result = foreseen[1]
        else:
            result = Result(kept(answer, self._limits.most_output_bytes))
        return await self._steps.take_read(key, result, place, by=by)

    def foresee_answer(self, key: TaskKey, answer: Answer, *, by: AgentAddress) -> None:
        """It may come to `finish_read` in a moment, this very object, or not."""
        result = Result(kept(answer, self._limits.most_output_bytes))
        self._foreseen = answer, result
        self._steps.foresee(key, result, by=by)

    async def fail(self, key: TaskKey, error: TaskError, *, by: AgentAddress | None = None) -> Task | None:
        """With one of the five codes."""
        return await self._steps.take(key, Error(error), by=by)

    async def unreachable(self, key: TaskKey, reason: str) -> Task | None:
        """The node to which it has to go will not take it."""
        return await self._steps.take(key, Unreachable(reason))

    async def cancel(self, key: TaskKey, by: str, reason: str | None = None) -> Task | None:
        """Whoever asked is answered at once; the agent is told to stop."""
        return await self._steps.take(key, Cancel(by, reason))

    # -- agents come and go --

    def agents_changed(self, changes: Sequence[Change]) -> None:
        """A listener for the routing table."""
        gone = [change.after for change in changes if change.after is not None and not change.after.is_here]
        if gone:
            self._start(self._agents_gone([agent.address for agent in gone]))
        for change in changes:
            before, after = change.before, change.after
            if before is None or after is None:
                continue
            if before.status is AgentStatus.ERROR or self._has_come_back(before, after):
                self._queues.freed(after.address)

    def _has_come_back(self, before: Agent, after: Agent) -> bool:
        """An agent of this node, for which tasks may have waited."""
        if before.is_here or not after.is_here:
            return False
        return isinstance(self._ports.routes.route(after.address), Local)

    def _look_after_lost(self, addresses: Sequence[AgentAddress]) -> None:
        """Agents that were lost while nobody was there to tell their tasks. Those that left in good order are
        not meant: this node's own do whenever it stops."""
        agents = map(self._ports.routes.agent, dict.fromkeys(addresses))
        lost = [agent.address for agent in agents if agent is not None and agent.is_lost]
        if lost:
            self._start(self._agents_gone(lost))

    async def attached(self, address: AgentAddress) -> list[Task]:
        """An agent has come, or come back, to this process: what was meant for it is brought. Gives the tasks
        that it has, those that wait for it not among them."""
        has = []
        async for task in self._live_of([address]):
            if task.state is not State.QUEUED:
                self._effects.do(task, IN_THIS_PROCESS, announce=False)
                has.append(task)
        return has

    async def _agents_gone(self, addresses: Sequence[AgentAddress]) -> None:
        """ "routes end, waiting tasks fail"."""
        for begin in range(0, len(addresses), LOST_AT_ONCE):
            page = addresses[begin : begin + LOST_AT_ONCE]
            async for task in self._live_of(page):
                route = self._ports.routes.route(task.request.to_address)
                if isinstance(route, Unknown):
                    await self._steps.take(task.key, AgentGone(route.error()))

    async def _live_of(self, addresses: Sequence[AgentAddress]) -> AsyncIterator[Task]:
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await tasks.list_live_of_agents(connection, map(str, addresses), after, TASKS_AT_ONCE)
            if not rows:
                return
            for row in rows:
                yield self._store.read(row)
            after = rows[-1].id

    # -- looking --

    async def task(self, key: TaskKey) -> Task | None:
        return await self._store.load(key)

    async def find(self, name: str, limit: int = 10) -> list[Task]:
        """By the id of its request or its own, the newest first."""
        if not storable(name):
            return []
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.find_tasks(connection, name, limit)
        return [self._store.read(row) for row in rows]

    async def search(
        self,
        *,
        agent: AgentAddress | None = None,
        states: Sequence[State] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Task]:
        """The newest first; `agent` gave or got them, `before` is the database's own number of a task."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.list_tasks(
                connection,
                agent=None if agent is None else str(agent),
                states=states,
                before=before,
                limit=limit,
            )
        return [self._store.read(row) for row in rows]

    async def progress_of(self, task: Task, after: int = 0) -> list[ProgressRow]:
        async with self._database.transaction(readonly=True) as connection:
            return await tasks.list_progress(connection, task.id, after)

    # -- what happens by itself --

    async def _tick(self, key: TaskKey) -> None:
        task = await self._steps.take(key, Tick())
        if task is not None:
            self._timers.watch(task)

    async def _happened(self, key: TaskKey, message: Message) -> None:
        await self._steps.take(key, message)

    def _session_opened(self) -> None:
        self._sweep.soon()

    def _heard(self, notice: str) -> None:
        """Another process has a task of which this one may do what is due, or lets one wait for an agent."""
        about = self._notices.read(notice)
        if isinstance(about, TaskKey):
            self._start(self._look_at(about))
        elif about is not None:
            self._queues.waits(about)

    def _waits(self, address: AgentAddress) -> None:
        """Whoever ends a task of the agent, in whichever process, calls the next one."""
        self._queues.waits(address)
        self._notices.tell(address)

    async def _look_at(self, key: TaskKey) -> None:
        task = await self._store.load(key)
        if task is not None:
            self._effects.do(task, IN_THIS_PROCESS, announce=False)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._ports.observer.problem("Something that happened to tasks was missed.", task.exception())
