"""The task service: accepts tasks, delivers them to their agents and returns the answers. A process may be
killed at any point.

For each message about a task the service loads the task, lets the state machine decide, stores the step, and
only then starts the effects of the step. If another process has stored a step first, the decision is
repeated.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing import Local
from bridge.agents.routing_table import Change
from bridge.agents.statuses import AgentStatuses
from bridge.tasks.answer import Answer, truncated
from bridge.tasks.effects import Ports, TaskEffects
from bridge.tasks.errors import TaskError
from bridge.tasks.intake import Submission, TaskIntake
from bridge.tasks.lease import TOPIC, TaskLease, read_notice
from bridge.tasks.limits import TaskLimiter, TaskLimits
from bridge.tasks.messages import Cancel, DroppedMessage, Due, Error, Progress, Renew, Result, Start, Unreachable
from bridge.tasks.queue_settings import SettingsOf
from bridge.tasks.queues import AgentQueues
from bridge.tasks.request import TaskKey, TaskRequest, encoded
from bridge.tasks.steps import TaskSteps
from bridge.tasks.store import TaskStore, storable
from bridge.tasks.sweep import RETENTION_MS, SWEEP_INTERVAL, TaskSweep, runner_name
from bridge.tasks.task import State, Task
from bridge.tasks.timers import TaskTimers
from storage.agents import tasks
from storage.agents.tasks import ProgressRow
from storage.concurrency import BackgroundTasks
from storage.database import Connection, Database
from storage.rooms import stream as consumers
from storage.rooms.stream import ReaderPosition

ATTACHMENT_BOUND: Final = frozenset({Due.DELIVER, Due.CANCEL})
"""Effects that only the process to which the agent is attached can perform."""
MAX_PROGRESS_BYTES: Final = 16_384


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
        sweep_interval: float = SWEEP_INTERVAL,
        retention_ms: int = RETENTION_MS,
    ) -> None:
        self._database = database
        self._ports = ports
        self._now_ms = now_ms
        self._limits = limits or TaskLimits()
        observer = ports.observer
        self._background = background = BackgroundTasks()
        self._store = TaskStore(database)
        self._unsubscribe: list[Callable[[], None]] = []
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
            interval=sweep_interval,
            retention_ms=retention_ms,
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
        """Continue with all tasks that earlier processes left. The connectors must have been started."""
        await self._lease.start()
        self._effects.start(self._steps)
        self._timers.start(self._steps)
        self._queues.start(self._steps)
        self._sweep.start()
        self._unsubscribe = [
            self._ports.routes.subscribe(self._agents_changed),
            self._database.session.subscribe(TOPIC, self._notified),
        ]

    async def close(self) -> None:
        """Stop at once. Everything that is stored continues after the next start."""
        for end in self._unsubscribe:
            end()
        await self._background.close()
        await self._effects.close()
        await self._lease.close()

    # -- accepting tasks --

    async def submit(self, request: TaskRequest, position: ReaderPosition | None = None) -> Submission:
        """Accept a task.

        On return the task is stored and its effects are started, unless it was refused. `position` is the stream
        position of the reader that found the request; it is committed together with the task, unless the request
        is refused. Raises `ReaderReplaced` if another process reads that stream now.
        """
        async with self._database.autocommit() as connection:
            submitted = await self._intake.accept(connection, request, position)
        if submitted is None:
            async with self._database.transaction() as connection:
                submitted = await self._intake.resubmit(connection, request)
                if position is not None and submitted.refusal is None:
                    await consumers.advance(connection, *position)
        self.committed(submitted)
        return submitted

    async def accept(self, connection: Connection, request: TaskRequest) -> Submission:
        """Accept a task in the caller's transaction. Call `committed` after the commit. "a repeated request
        id gets the stored answer"."""
        submitted = await self._intake.accept(connection, request)
        return submitted or await self._intake.resubmit(connection, request)

    def committed(self, submitted: Submission) -> None:
        """Start the effects of a submission. Call it after the commit of the transaction in which the task
        was accepted."""
        if submitted.step is not None:
            self._steps.committed(submitted.before, submitted.step)

    # -- messages from agents and their nodes --
    # With `by`, a message is dropped unless the task is addressed to that agent.

    async def begin(
        self, key: TaskKey, *, runner: str | None = None, lease_until: int | None = None, by: AgentAddress | None = None
    ) -> Task | None:
        """Move the task to `running`. An agent may work on it only if this returns the task; None means that
        another runner has it or that it has ended.

        Without `runner` the task runs in this process and is lost with it. A runner that may outlive this
        process has a name of its own, and a lease that it renews.
        """
        name = runner_name(self._lease.number) if runner is None else runner
        task = await self._steps.apply(key, Start(name, lease_until), by=by)
        is_ours = task is not None and task.state is State.RUNNING and task.runner == name
        return task if is_ours else None

    async def renew(self, key: TaskKey, runner: str, lease_until: int) -> Task | None:
        return await self._steps.apply(key, Renew(runner, lease_until))

    async def progress(
        self, key: TaskKey, content: Mapping[str, Any], *, by: AgentAddress | None = None
    ) -> Task | None:
        """Store and forward a progress message. A message that is too long or is not JSON is dropped."""
        size = len(encoded(content) or b"")
        if not 0 < size <= MAX_PROGRESS_BYTES:
            self._ports.observer.dropped(self._store.cached(key), DroppedMessage("progress", "it is too long"))
            return None
        return await self._steps.apply(key, Progress(content), by=by)

    async def finish(self, key: TaskKey, answer: Answer, *, by: AgentAddress | None = None) -> Task | None:
        """Store the agent's answer. Output that is too long is truncated. A second or late answer is
        dropped."""
        return await self._steps.apply(key, Result(truncated(answer, self._limits.max_output_bytes)), by=by)

    async def fail(self, key: TaskKey, error: TaskError, *, by: AgentAddress | None = None) -> Task | None:
        """End the task with one of the five error codes."""
        return await self._steps.apply(key, Error(error), by=by)

    async def fail_unreachable(self, key: TaskKey, reason: str) -> Task | None:
        """End the task with `NODE_UNREACHABLE`: its node refuses it or cannot be reached."""
        return await self._steps.apply(key, Unreachable(reason))

    async def cancel(self, key: TaskKey, by: str, reason: str | None = None) -> Task | None:
        """End the task as cancelled. The requester gets the answer at once, and the agent is told to stop."""
        return await self._steps.apply(key, Cancel(by, reason))

    # -- agents connect and disconnect --

    def _agents_changed(self, changes: Sequence[Change]) -> None:
        offline = [change.after for change in changes if change.after is not None and not change.after.is_online]
        self._sweep.agents_offline([agent.address for agent in offline])
        for change in changes:
            before, after = change.before, change.after
            if before is None or after is None:
                continue
            if before.status is AgentStatus.ERROR or self._is_online_again(before, after):
                self._queues.slot_freed(after.address)

    def _is_online_again(self, before: Agent, after: Agent) -> bool:
        """Whether an agent of this node is online again, so that queued tasks may start."""
        if before.is_online or not after.is_online:
            return False
        return isinstance(self._ports.routes.route(after.address), Local)

    async def agent_attached(self, address: AgentAddress) -> list[Task]:
        """Deliver to an agent that has attached itself to this process what is due. Return its tasks, without
        the queued ones."""
        has = []
        async for task in self._store.live_tasks_of([address]):
            if task.state is not State.QUEUED:
                self._effects.start_due(task, ATTACHMENT_BOUND, announce=False)
                has.append(task)
        return has

    # -- queries --

    async def task(self, key: TaskKey) -> Task | None:
        return await self._store.load(key)

    async def find(self, name: str, limit: int = 10) -> list[Task]:
        """Find tasks by request id or task id, the newest first."""
        if not storable(name):
            return []
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.find_tasks(connection, name, limit)
        return [self._store.read(row) for row in rows]

    async def find_by_beginning(self, *beginnings: str, limit: int = 10) -> list[Task]:
        """Find tasks by the beginning of their request id or task id, the newest first."""
        if not all(map(storable, beginnings)):
            return []
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.find_tasks_by_beginning(connection, beginnings, limit)
        return [self._store.read(row) for row in rows]

    async def search(
        self,
        *,
        agent: AgentAddress | None = None,
        states: Sequence[State] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[Task]:
        """List tasks, the newest first. `agent` is the requester or the target, `before` a task's id in the
        database."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await tasks.list_tasks(
                connection, agent=None if agent is None else str(agent), states=states, before=before, limit=limit
            )
        return [self._store.read(row) for row in rows]

    async def progress_of(self, task: Task, after: int = 0) -> list[ProgressRow]:
        async with self._database.transaction(readonly=True) as connection:
            return await tasks.list_progress(connection, task.id, after)

    # -- notifications --

    def _notified(self, notice: str | None) -> None:
        """Handle a notification of another process: a task has an effect that only this process may be able
        to perform, or a task is queued for an agent. None means that notifications may have been lost."""
        if notice is None:
            self._sweep.wake()
            return
        about = read_notice(notice)
        if isinstance(about, TaskKey):
            self._background.spawn("start the due effects of a task", self._start_due_effects(about))
        elif about is not None:
            self._queues.mark_queued(about)

    async def _start_due_effects(self, key: TaskKey) -> None:
        task = await self._store.load(key)
        if task is not None:
            self._effects.start_due(task, ATTACHMENT_BOUND, announce=False)
