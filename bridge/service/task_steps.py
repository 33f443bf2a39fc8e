"""Takes steps of tasks: load, decide, store, and then see to what follows."""

from collections.abc import Callable
from typing import Final, Protocol

from bridge.address import AgentAddress
from bridge.agent_status import StatusInput
from bridge.service.task_effects import TaskEffects
from bridge.service.task_lease import TaskLease
from bridge.service.task_store import TaskStore
from bridge.service.task_timers import TaskTimers
from bridge.task import State, Step, Task, receive
from bridge.task_messages import Dropped, Freed, Message, Progress, SendProgress
from bridge.task_ports import HearsProgress, TaskObserver
from bridge.task_request import TaskKey, encoded
from storage import tasks
from storage.consumers import Place, TakenOver
from storage.database import Connection, Database

FORESEEN_MS: Final = 1_000
"""For so long it holds when something was foreseen: it is when the task has come, or has ended."""
MOST_PROGRESS: Final = 100
"""What is kept of the reports on one task: the newest."""


class AgentDuty(Protocol):
    """Told what an agent of this node does."""

    def __call__(self, agent: AgentAddress, message: StatusInput, task_id: str | None = None) -> object: ...


class TaskSteps:
    """`ended` is told when a task that an agent of this node had has ended, and whether it had been begun;
    `waits` when one has come to wait for it."""

    def __init__(
        self,
        database: Database,
        *,
        store: TaskStore,
        effects: TaskEffects,
        timers: TaskTimers,
        lease: TaskLease,
        observer: TaskObserver,
        now_ms: Callable[[], int],
        ended: Callable[[AgentAddress, bool], None],
        waits: Callable[[AgentAddress], None],
        duty: AgentDuty,
    ) -> None:
        self._database = database
        self._store = store
        self._effects = effects
        self._timers = timers
        self._lease = lease
        self._observer = observer
        self._now_ms = now_ms
        self._ended = ended
        self._waits = waits
        self._duty = duty
        # A step that is taken next, perhaps: of what, by what, to what it leads, and when that was.
        self._foreseen: tuple[Task, Message, Step, int] | None = None

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
            if step.task is not task:
                self._effects.make_ready(step.task)
            # Most steps are one statement.
            database = self._database
            async with database.transaction() if _talks(step) else database.statements() as connection:
                taken = await self.store(connection, task, step)
            if taken:
                self.went(task, step)
                return step.task

    async def take_read(self, key: TaskKey, message: Message, place: Place, *, by: AgentAddress) -> bool:
        """The same by one statement, together with the place of the reader that read of it. False: it is not
        that simple, and nothing was written. Raises `TakenOver` for who is not the reader any more; the step
        was taken all the same, as it would have been before."""
        task = self._store.remembered(key)
        if task is None or by != task.request.to_address:
            return False
        now_ms = self._now_ms()
        foreseen, self._foreseen = self._foreseen, None
        if (
            foreseen is not None
            and foreseen[0] is task
            and foreseen[1] is message
            and 0 <= now_ms - foreseen[3] <= FORESEEN_MS
        ):
            step = foreseen[2]
        else:
            step = receive(task, message, now_ms)
        if step.task is task or _talks(step):
            return False
        async with self._database.statements() as connection:
            desk = self._lease.number
            taken, advanced = await self._store.step_and_advance(connection, step.task, desk, place)
        if taken:
            self.went(task, step)
            if not advanced:
                raise TakenOver(place[0])
        return taken

    def foresee(self, key: TaskKey, message: Message, *, by: AgentAddress) -> None:
        """It may come to `take_read` in a moment, this very object: to what that leads, for a task that is
        still this very one then, is decided already. Nobody is told."""
        task = self._store.remembered(key)
        if task is not None and by == task.request.to_address:
            now_ms = self._now_ms()
            step = receive(task, message, now_ms)
            if step.task is not task:
                self._store.foresee_step(step.task, self._lease.number)
                self._foreseen = task, message, step, now_ms

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
            if task.state is State.RUNNING and not task.elsewhere:
                self._duty(task.request.to_address, StatusInput.START, task.request.task_id)
            elif task.state is State.QUEUED:
                self._waits(task.request.to_address)
        for effect in step.effects:
            match effect:
                case SendProgress(content):
                    self._effects.say(task, content)
                    if isinstance(self._observer, HearsProgress):
                        self._observer.heard(task, content)
                case Freed():
                    was_begun = before is not None and before.state is State.RUNNING
                    self._ended(task.request.to_address, was_begun)
                case Dropped():
                    self._observer.dropped(task, effect)

    def make_ready(self, task: Task) -> None:
        """It is stored next by a statement of the caller's."""
        self._effects.make_ready(task)

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
