"""Does what is due of tasks, and remembers that it was done.

Each thing is done once at a time for each task, some of them at the same time for different ones. What fails
is tried again; what goes on failing stays due, and is found by the desk's next sweep, in whichever process.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bridge.agents.routing_table import RoutingTable
from bridge.tasks.effect_acks import ONCE, TaskTicks
from bridge.tasks.lease import TOPIC, notice_of
from bridge.tasks.messages import Due, Error, Message, Unreachable
from bridge.tasks.ports import Delivered, Delivery, NotHere, NotNow, Rejected, Reply, Watcher
from bridge.tasks.request import TaskKey
from bridge.tasks.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from bridge.tasks.store import TaskStore
from bridge.tasks.task import Task
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

if TYPE_CHECKING:
    from bridge.observability.agent_observer import AgentObserver
    from bridge.tasks.steps import TaskSteps


TIMEOUT: Final = 60.0
"""Seconds that a connector has for one thing."""
AT_ONCE: Final = 100
"""Of each kind of thing: people who cannot be shown what happens keep no agent and no requester waiting."""
MOST_WAITING: Final[Mapping[Due, int]] = {
    Due.DELIVER: 20_000,
    Due.CANCEL: 20_000,
    Due.ANSWER: 20_000,
    Due.SHOW: 1_000,
}
"""Tasks that wait in memory for each kind of thing. What is more stays due, and the next sweep finds it."""
PAUSE: Final = 0.05
"""Seconds for which is gathered what has been done, after those that people wait to be shown it."""
MOST_PROGRESS: Final = 100
"""Messages of one task that wait to be passed on. The oldest is left out: the newest tells most."""


@dataclass(slots=True)
class _Lane:
    task: Task
    work: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class _Talk:
    """What an agent has said of its work and was not passed on yet."""

    waiting: deque[Mapping[str, Any]]
    work: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class Ports:
    """The connectors, by their names, and the protocols that ask for tasks, by theirs. `shown_after`: seconds
    until people are shown a step, most often with those that follow it."""

    deliveries: Mapping[str, Delivery]
    replies: Mapping[str, Reply]
    routes: RoutingTable
    observer: "AgentObserver"
    watcher: Watcher | None = None
    retry: RetryPolicy = field(default=DEFAULT_RETRY_POLICY)
    shown_after: float = 0.0


class TaskEffects:
    """A task that cannot be delivered takes a step."""

    def __init__(
        self,
        database: Database,
        store: TaskStore,
        ports: Ports,
        background: BackgroundTasks,
    ) -> None:
        self._database = database
        self._ports = ports
        self._steps: TaskSteps | None = None
        self._background = background
        self._lanes: dict[Due, dict[TaskKey, _Lane]] = {due: {} for due in Due}
        self._talking: dict[TaskKey, _Talk] = {}
        self._turns = {due: asyncio.Semaphore(AT_ONCE) for due in Due}
        self._ticks = TaskTicks(database, store, background, PAUSE + ports.shown_after)

    def start(self, steps: "TaskSteps") -> None:
        self._steps = steps
        self._ticks.start()

    async def close(self) -> None:
        """What was not done stays due. The background tasks have been closed."""
        try:
            await self._ticks.flush()
        except ConnectionLost:
            self._ports.observer.problem("What was done of tasks may be done again: Postgres is away.", None)

    @property
    def is_idle(self) -> bool:
        """Nothing is under way, and all that was done is stored."""
        return not any(self._lanes.values()) and not self._talking and self._ticks.is_idle

    def do(self, task: Task, only: Collection[Due] = tuple(Due), *, announce: bool = True) -> None:
        """What is due of it. `announce`: other processes are told of what cannot be done in this one."""
        self._ticks.leave_out_older(task)
        key = task.key
        for due in only:
            lanes = self._lanes[due]
            lane = lanes.get(key)
            if lane is not None:
                if task.version > lane.task.version:
                    lane.task = task  # perhaps it is no longer due
            elif due in task.due and not self._ticks.was_done(task, due) and len(lanes) < MOST_WAITING[due]:
                lane = lanes[key] = _Lane(task)
                lane.work = self._background.spawn(f"{due} a task", self._run(due, lane, announce=announce))

    def say(self, task: Task, content: Mapping[str, Any]) -> None:
        """Pass on what an agent says of its work, in its order."""
        if self._ports.watcher is not None:
            self._ports.watcher.progress(task, content)
        reply = self._ports.replies.get(task.request.origin.protocol)
        if reply is None:
            return
        talk = self._talking.get(task.key)
        if talk is not None:
            talk.waiting.append(content)
            return
        talk = self._talking[task.key] = _Talk(deque([content], MOST_PROGRESS))
        talk.work = self._background.spawn("report progress", self._pass_on(reply, task, talk.waiting))

    # -- one thing of one task --

    async def _run(self, due: Due, lane: _Lane, *, announce: bool) -> None:
        key = lane.task.key
        failures = 0
        try:
            while True:
                if due is Due.SHOW and not failures:
                    # Most steps are followed by another one within a moment.
                    await asyncio.sleep(self._ports.shown_after)
                task = lane.task
                if due not in task.due:
                    return
                outcome = await self._try(due, task)
                if isinstance(outcome, NotNow):
                    failures += 1
                    delay_ms = self._ports.retry.delay_ms(failures)
                    if delay_ms is None:
                        await self._give_up(due, task, outcome)
                        return
                    await asyncio.sleep(delay_ms / 1000)
                    continue
                failures = 0
                if isinstance(outcome, NotHere):
                    if announce:
                        self._database.session.notify(TOPIC, notice_of(key))
                    return
                if isinstance(outcome, Rejected):
                    await self._step(key, Error(outcome.error))
                    return
                if due in ONCE or lane.task is task:
                    self._ticks.done(lane.task, due)
                    return
                self._ticks.done(task, due)
        except ConnectionLost as error:
            self._ports.observer.problem(f"Something waits to be done of the task {key}.", error)
        finally:
            del self._lanes[due][key]

    async def _step(self, key: TaskKey, message: Message) -> None:
        assert self._steps is not None, "it was started"
        await self._steps.take(key, message)

    async def _try(self, due: Due, task: Task) -> Delivered | Rejected | NotNow | NotHere:
        try:
            if due is Due.CANCEL:
                await self._after_delivery(task.key)
            elif due is Due.ANSWER:
                await self._after_talk(task.key)
            async with self._turns[due], asyncio.timeout(TIMEOUT):
                return await self._perform(due, task)
        except ConnectionLost:
            return NotNow("The database is away.")
        except TimeoutError:
            return NotNow("It took too long.")
        except Exception as error:
            self._ports.observer.problem(f"The task {task.key} could not be worked on: {due}.", error)
            return NotNow("It failed.")

    async def _perform(self, due: Due, task: Task) -> Delivered | Rejected | NotNow | NotHere:
        match due:
            case Due.DELIVER:
                delivery = self._delivery(task)
                return NotHere() if delivery is None else await delivery.deliver(task)
            case Due.CANCEL:
                delivery = self._delivery(task)
                return Delivered() if delivery is not None and await delivery.cancel(task) else NotHere()
            case Due.ANSWER:
                reply = self._ports.replies.get(task.request.origin.protocol)
                if reply is None:
                    return NotHere()
                await reply.answer(task)
            case Due.SHOW:
                if self._ports.watcher is not None:
                    await self._ports.watcher.show(task)
        return Delivered()

    def _delivery(self, task: Task) -> Delivery | None:
        agent = self._ports.routes.agent(task.request.to_address)
        return None if agent is None else self._ports.deliveries.get(agent.connector)

    async def _after_delivery(self, key: TaskKey) -> None:
        """An agent is told to stop after it was told to begin."""
        lane = self._lanes[Due.DELIVER].get(key)
        if lane is not None and lane.work is not None:
            await asyncio.wait({lane.work}, timeout=TIMEOUT)

    async def _after_talk(self, key: TaskKey) -> None:
        """Nothing is said of a task any more once it is answered: what came before is told before."""
        talk = self._talking.get(key)
        if talk is not None and talk.work is not None:
            await asyncio.wait({talk.work}, timeout=TIMEOUT)

    async def _give_up(self, due: Due, task: Task, outcome: NotNow) -> None:
        if due is Due.DELIVER:
            await self._step(task.key, Unreachable(outcome.reason))
        else:
            self._ports.observer.problem(
                f"The task {task.key} waits: {due} has failed, and will be tried again.", None
            )

    async def _pass_on(self, reply: Reply, task: Task, waiting: deque[Mapping[str, Any]]) -> None:
        try:
            while waiting:
                content = waiting.popleft()
                try:
                    async with self._turns[Due.ANSWER], asyncio.timeout(TIMEOUT):
                        await reply.progress(task, content)
                except Exception as error:
                    self._ports.observer.problem(f"A report on the task {task.key} is lost.", error)
        finally:
            del self._talking[task.key]
