"""Applies messages to tasks: load the task, decide the step, store it, start its effects."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import StatusInput
from bridge.agents.statuses import AgentStatuses
from bridge.tasks.effects import TaskEffects
from bridge.tasks.lease import TaskLease
from bridge.tasks.messages import AdvanceQueue, DroppedMessage, Message, Progress, SendProgress
from bridge.tasks.queues import AgentQueues
from bridge.tasks.request import TaskKey, encoded
from bridge.tasks.store import TaskStore
from bridge.tasks.task import State, Step, Task, receive
from bridge.tasks.timers import TaskTimers
from storage.agents import tasks
from storage.database import Connection, Database

if TYPE_CHECKING:
    from bridge.observability.agent_observer import AgentObserver


MAX_STORED_PROGRESS: Final = 100
"""Progress messages that are stored for one task. The oldest are deleted."""


class TaskSteps:
    """Every change of a task goes through this class."""

    def __init__(
        self,
        database: Database,
        *,
        store: TaskStore,
        effects: TaskEffects,
        timers: TaskTimers,
        lease: TaskLease,
        observer: "AgentObserver",
        now_ms: Callable[[], int],
        queues: AgentQueues,
        statuses: AgentStatuses | None,
    ) -> None:
        self._database = database
        self._store = store
        self._effects = effects
        self._timers = timers
        self._lease = lease
        self._observer = observer
        self._now_ms = now_ms
        self._queues = queues
        self._statuses = statuses

    async def apply(self, key: TaskKey, message: Message, *, by: AgentAddress | None = None) -> Task | None:
        """Apply a message and return the task after it. None if there is no such task, or if `by` is given
        and is not the agent of the task.

        On return the step is stored, and its effects have been started.
        """
        while True:
            remembered = self._store.cached(key)
            task = await self._store.load(key) if remembered is None else remembered
            if task is None or (by is not None and by != task.request.to_address):
                why = "the task does not exist" if task is None else f"the task is not addressed to {by}"
                self._observer.dropped(task, DroppedMessage(_name(message), why))
                return None
            step = receive(task, message, self._now_ms())
            if remembered is not None and step.task is task and not _has_progress(step):
                # By the cached task, the message has no effect. The cache may be out of date.
                self._store.evict(key)
                continue
            # Most steps are a single statement and need no transaction of their own.
            database = self._database
            async with database.transaction() if _has_progress(step) else database.autocommit() as connection:
                stored = await self.store(connection, task, step)
            if stored:
                self.committed(task, step)
                return step.task

    async def store(self, connection: Connection, before: Task, step: Step) -> bool:
        """Store a step in the caller's transaction; call `committed` after the commit. False if the task has
        changed since it was loaded."""
        if step.task is not before and not await self._store.store_step(connection, step.task, self._lease.number):
            return False
        for effect in step.effects:
            if isinstance(effect, SendProgress):
                content = encoded(effect.content)
                assert content is not None, "`progress` checks it"
                now_ms = self._now_ms()
                number = await tasks.insert_progress(connection, step.task.id, now_ms, content, MAX_STORED_PROGRESS)
                if number is None:
                    self._store.evict(before.key)  # the task has ended meanwhile
                    return False
        return True

    def committed(self, before: Task | None, step: Step) -> None:
        """Start the effects of a step, after its transaction was committed. `before` is None for a new
        task."""
        task = step.task
        if task is not before:
            self._store.cache(task)
            self._timers.watch(task)
            self._effects.start_due(task)
        if before is None or before.state is not task.state:
            self._observer.changed(task)
            address = task.request.to_address
            if task.state is State.RUNNING and not task.elsewhere and self._statuses is not None:
                self._statuses.apply(address, StatusInput.START, task.request.task_id)
            elif task.state is State.QUEUED:
                self._queues.task_queued(address)
        for effect in step.effects:
            match effect:
                case SendProgress(content):
                    self._effects.send_progress(task, content)
                    self._observer.progress(task, content)
                case AdvanceQueue():
                    was_running = before is not None and before.state is State.RUNNING
                    self._queues.task_ended(task.request.to_address, was_running)
                case DroppedMessage():
                    self._observer.dropped(task, effect)

    def watch(self, task: Task) -> None:
        """Watch the deadline of the task in this process."""
        self._timers.watch(task)

    async def take_over(self, connection: Connection, task: Task, message: Message | None) -> Step | None:
        """Take over a task of a process that has ended, in the caller's transaction. None if another process
        has stored a step meanwhile."""
        step = Step(task) if message is None else receive(task, message, self._now_ms())
        if step.task is task:
            step = Step(task.replace(version=task.version + 1))
        return step if await self.store(connection, task, step) else None


def _has_progress(step: Step) -> bool:
    return bool(step.effects) and any(isinstance(effect, SendProgress) for effect in step.effects)


def _name(message: Message) -> str:
    return "progress" if isinstance(message, Progress) else type(message).__name__.lower()
