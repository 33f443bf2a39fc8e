"""Takes steps of tasks: load, decide, store, and then see to what follows."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import StatusInput
from bridge.agents.statuses import AgentStatuses
from bridge.tasks.effects import TaskEffects
from bridge.tasks.lease import TaskLease
from bridge.tasks.messages import Dropped, Freed, Message, Progress, SendProgress
from bridge.tasks.queues import AgentQueues
from bridge.tasks.request import TaskKey, encoded
from bridge.tasks.store import TaskStore
from bridge.tasks.task import State, Step, Task, receive
from bridge.tasks.timers import TaskTimers
from storage.agents import tasks
from storage.database import Connection, Database

if TYPE_CHECKING:
    from bridge.observability.agent_observer import AgentObserver


MOST_PROGRESS: Final = 100
"""What is kept of the reports on one task: the newest."""


class TaskSteps:
    """Every change of a task is one of its steps."""

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

    async def take(self, key: TaskKey, message: Message, *, by: AgentAddress | None = None) -> Task | None:
        """What the task is after this; None if there is none, or if it is another agent's than who says so.
        When it returns, the step is stored, and what follows is under way."""
        while True:
            remembered = self._store.remembered(key)
            task = await self._store.load(key) if remembered is None else remembered
            if task is None or (by is not None and by != task.request.to_address):
                why = "no such task is known" if task is None else f"it is not the task of {by}"
                self._observer.dropped(task, Dropped(_name(message), why))
                return None
            step = receive(task, message, self._now_ms())
            if remembered is not None and step.task is task and not _talks(step):
                # Nothing happens, by what is remembered. That may be out of date.
                self._store.forget(key)
                continue
            # Most steps are one statement.
            database = self._database
            async with database.transaction() if _talks(step) else database.autocommit() as connection:
                taken = await self.store(connection, task, step)
            if taken:
                self.went(task, step)
                return step.task

    async def store(self, connection: Connection, before: Task, step: Step) -> bool:
        """In a transaction of the caller, who calls `went` after its end. Whether it is the next step."""
        if step.task is not before and not await self._store.step(connection, step.task, self._lease.number):
            return False
        for effect in step.effects:
            if isinstance(effect, SendProgress):
                content = encoded(effect.content)
                assert content is not None, "it was looked at before it came here"
                now_ms = self._now_ms()
                number = await tasks.insert_progress(connection, step.task.id, now_ms, content, MOST_PROGRESS)
                if number is None:
                    self._store.forget(before.key)  # it has ended since
                    return False
        return True

    def went(self, before: Task | None, step: Step) -> None:
        """The transaction with the step has ended well. `before` is None for a new task."""
        task = step.task
        if task is not before:
            self._store.committed(task)
            self._timers.watch(task)
            self._effects.do(task)
        if before is None or before.state is not task.state:
            self._observer.changed(task)
            address = task.request.to_address
            if task.state is State.RUNNING and not task.elsewhere and self._statuses is not None:
                self._statuses.take(address, StatusInput.START, task.request.task_id)
            elif task.state is State.QUEUED:
                self._queues.added(address)
        for effect in step.effects:
            match effect:
                case SendProgress(content):
                    self._effects.say(task, content)
                    self._observer.heard(task, content)
                case Freed():
                    was_begun = before is not None and before.state is State.RUNNING
                    self._queues.ended(task.request.to_address, was_begun)
                case Dropped():
                    self._observer.dropped(task, effect)

    def watch(self, task: Task) -> None:
        """It is this process that looks after its deadline."""
        self._timers.watch(task)

    async def own(self, connection: Connection, task: Task, message: Message | None) -> Step | None:
        """Take a task over from a desk that is no more, in a transaction of the caller. None if somebody else
        has taken a step meanwhile."""
        step = Step(task) if message is None else receive(task, message, self._now_ms())
        if step.task is task:
            step = Step(task.changed(version=task.version + 1))
        return step if await self.store(connection, task, step) else None


def _talks(step: Step) -> bool:
    return bool(step.effects) and any(isinstance(effect, SendProgress) for effect in step.effects)


def _name(message: Message) -> str:
    return "progress" if isinstance(message, Progress) else type(message).__name__.lower()
