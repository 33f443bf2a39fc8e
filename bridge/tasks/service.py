"""The desk: tasks come in, go to their agents, and are answered, whatever is killed when.

For everything that happens the task is loaded, its machine decides, the step is stored, and only then is done
what follows from it. A step that another process was quicker with is decided again.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing import Local
from bridge.agents.routing_table import Change
from bridge.agents.statuses import AgentStatuses
from bridge.tasks.answer import Answer, kept
from bridge.tasks.effects import Ports, TaskEffects
from bridge.tasks.errors import TaskError
from bridge.tasks.intake import Submitted, TaskIntake
from bridge.tasks.lease import TOPIC, TaskLease, read_notice
from bridge.tasks.limits import TaskLimiter, TaskLimits
from bridge.tasks.messages import (
    Cancel,
    Dropped,
    Due,
    Error,
    Progress,
    Renew,
    Result,
    Start,
    Unreachable,
)
from bridge.tasks.queue_settings import SettingsOf
from bridge.tasks.queues import AgentQueues
from bridge.tasks.request import TaskKey, TaskRequest, encoded
from bridge.tasks.steps import TaskSteps
from bridge.tasks.store import TaskStore, storable
from bridge.tasks.sweep import KEPT_MS, SWEEP, TaskSweep, runner_name
from bridge.tasks.task import State, Task
from bridge.tasks.timers import TaskTimers
from storage.agents import tasks
from storage.agents.tasks import ProgressRow
from storage.concurrency import BackgroundTasks
from storage.database import Connection, Database
from storage.rooms import stream as consumers
from storage.rooms.stream import ReaderPosition

IN_THIS_PROCESS: Final = frozenset({Due.DELIVER, Due.CANCEL})
"""What needs the process to which the agent is attached."""
MOST_PROGRESS_BYTES: Final = 16_384


class TaskService:
    def __init__(
        self,
        database: Database,
        ports: Ports,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        limits: TaskLimits | None = None,
        settings_of: SettingsOf,
        statuses: AgentStatuses | None = None,
        sweep: float = SWEEP,
        kept_ms: int = KEPT_MS,
    ) -> None:
        self._database = database
        self._ports = ports
        self._now_ms = now_ms
        self._limits = limits or TaskLimits()
        observer = ports.observer
        self._background = background = BackgroundTasks()
        self._store = TaskStore(database)
        self._end_subscriptions: list[Callable[[], None]] = []
        self._lease = TaskLease(database, background)
        self._effects = TaskEffects(database, self._store, ports, background)
        self._timers = TaskTimers(now_ms=now_ms, background=background, report=observer.problem)
        self._queues = AgentQueues(
            database,
            store=self._store,
            routes=ports.routes,
            settings_of=settings_of,
            observer=observer,
            now_ms=now_ms,
            statuses=statuses,
            background=background,
        )
        self._steps = TaskSteps(
            database,
            store=self._store,
            effects=self._effects,
            timers=self._timers,
            lease=self._lease,
            observer=observer,
            now_ms=now_ms,
            queues=self._queues,
            statuses=statuses,
        )
        self._sweep = TaskSweep(
            database,
            store=self._store,
            steps=self._steps,
            effects=self._effects,
            lease=self._lease,
            queues=self._queues,
            routes=ports.routes,
            background=background,
            now_ms=now_ms,
            every=sweep,
            kept_ms=kept_ms,
        )
        self._intake = TaskIntake(
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

    async def start(self) -> None:
        """Go on with everything that was left. The connectors must be there."""
        await self._lease.start()
        self._effects.start(self._steps)
        self._timers.start(self._steps)
        self._queues.start(self._steps)
        self._sweep.start()
        self._end_subscriptions = [
            self._ports.routes.subscribe(self._agents_changed),
            self._database.session.subscribe(TOPIC, self._notified),
        ]

    async def close(self) -> None:
        """Stop in the middle of things; nothing is lost by it."""
        for end in self._end_subscriptions:
            end()
        await self._background.close()
        await self._effects.close()
        await self._lease.close()

    # -- tasks come in --

    async def submit(self, request: TaskRequest, place: ReaderPosition | None = None) -> Submitted:
        """Accept it in a transaction of its own. On return the task is stored, and on its way. With the place
        of a reader that one is stored too, unless there is a refusal; raises `TakenOver`."""
        async with self._database.autocommit() as connection:
            submitted = await self._intake.accept(connection, request, place)
        if submitted is None:
            async with self._database.transaction() as connection:
                submitted = await self._intake.ask_again(connection, request)
                if place is not None and submitted.refusal is None:
                    await consumers.advance(connection, *place)
        self.go_on(submitted)
        return submitted

    async def accept(self, connection: Connection, request: TaskRequest) -> Submitted:
        """Accept it in the transaction of the caller, who calls `go_on` after its end. "a repeated request id
        gets the stored answer"."""
        submitted = await self._intake.accept(connection, request)
        return submitted or await self._intake.ask_again(connection, request)

    def go_on(self, submitted: Submitted) -> None:
        """The transaction in which it was accepted has been committed."""
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

    async def finish(self, key: TaskKey, answer: Answer, *, by: AgentAddress | None = None) -> Task | None:
        """What is too long is cut. A second answer, or a late one, changes nothing."""
        return await self._steps.take(key, Result(kept(answer, self._limits.most_output_bytes)), by=by)

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

    def _agents_changed(self, changes: Sequence[Change]) -> None:
        gone = [change.after for change in changes if change.after is not None and not change.after.is_here]
        self._sweep.agents_gone([agent.address for agent in gone])
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

    async def attached(self, address: AgentAddress) -> list[Task]:
        """An agent has come, or come back, to this process: what was meant for it is brought. Gives the tasks
        that it has, those that wait for it not among them."""
        has = []
        async for task in self._store.live_of([address]):
            if task.state is not State.QUEUED:
                self._effects.do(task, IN_THIS_PROCESS, announce=False)
                has.append(task)
        return has

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

    def _notified(self, notice: str | None) -> None:
        """Another process has a task of which this one may do what is due, or lets one wait for an agent."""
        if notice is None:
            self._sweep.soon()
            return
        about = read_notice(notice)
        if isinstance(about, TaskKey):
            self._background.spawn("look at a task", self._look_at(about))
        elif about is not None:
            self._queues.waits(about)

    async def _look_at(self, key: TaskKey) -> None:
        task = await self._store.load(key)
        if task is not None:
            self._effects.do(task, IN_THIS_PROCESS, announce=False)
