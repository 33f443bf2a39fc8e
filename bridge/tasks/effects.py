"""Performs the effects that are due for tasks, and records that they are done.

For one task each kind of effect runs once at a time; different kinds may run at the same time. A failed
effect is retried. If it keeps failing it stays due, and the next sweep of any process finds it.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bridge.agents.routing_table import RoutingTable
from bridge.tasks.effect_acks import ONCE_PER_TASK, EffectAcks
from bridge.tasks.lease import TOPIC, notice_of
from bridge.tasks.messages import Due, Error, Message, Unreachable
from bridge.tasks.ports import Delivered, Delivery, NotInThisProcess, Rejected, Reply, RetryLater, Watcher
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


PERFORM_TIMEOUT: Final = 60.0
"""Timeout of a connector for one effect, in seconds."""
MAX_CONCURRENT: Final = 100
"""Effects of each kind that run at the same time. Kinds are limited separately, so that slow updates of what
people see delay neither deliveries nor answers."""
MAX_PENDING: Final[Mapping[Due, int]] = {Due.DELIVER: 20_000, Due.CANCEL: 20_000, Due.ANSWER: 20_000, Due.SHOW: 1_000}
"""Tasks of which an effect of each kind may be pending in memory. The others stay due, and the next sweep
finds them."""
BATCH_DELAY: Final = 0.05
"""Seconds for which acknowledgements are collected, in addition to `shown_after`."""
MAX_PENDING_PROGRESS: Final = 100
"""Progress messages of one task that may be pending. The oldest is dropped: the newest says most."""


@dataclass(slots=True)
class _EffectRun:
    task: Task
    work: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class _ProgressQueue:
    """Progress messages of one task that have not been forwarded yet."""

    waiting: deque[Mapping[str, Any]]
    work: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class Ports:
    """The connectors by name, and the replies by the protocol of the request. `shown_after`: seconds to wait
    before people are shown a step, because another step often follows at once."""

    deliveries: Mapping[str, Delivery]
    replies: Mapping[str, Reply]
    routes: RoutingTable
    observer: "AgentObserver"
    watcher: Watcher | None = None
    retry: RetryPolicy = field(default=DEFAULT_RETRY_POLICY)
    shown_after: float = 0.0


class TaskEffects:
    """Starts and retries the effects of tasks. A task that cannot be delivered gets a message about it."""

    def __init__(self, database: Database, store: TaskStore, ports: Ports, background: BackgroundTasks) -> None:
        self._database = database
        self._ports = ports
        self._steps: TaskSteps | None = None
        self._background = background
        self._running: dict[Due, dict[TaskKey, _EffectRun]] = {due: {} for due in Due}
        self._progress: dict[TaskKey, _ProgressQueue] = {}
        self._semaphores = {due: asyncio.Semaphore(MAX_CONCURRENT) for due in Due}
        self._acks = EffectAcks(database, store, background, BATCH_DELAY + ports.shown_after)

    def start(self, steps: "TaskSteps") -> None:
        self._steps = steps
        self._acks.start()

    async def close(self) -> None:
        """Store the acknowledgements. Call it after the background tasks were closed. Unfinished effects stay
        due."""
        try:
            await self._acks.flush()
        except ConnectionLost:
            self._ports.observer.problem(
                "Effects of tasks may be repeated after the next start: the connection to Postgres is lost.", None
            )

    @property
    def is_idle(self) -> bool:
        """Whether no effect runs and all acknowledgements are stored."""
        return not any(self._running.values()) and not self._progress and self._acks.is_idle

    def start_due(self, task: Task, only: Collection[Due] = tuple(Due), *, announce: bool = True) -> None:
        """Start the effects that are due. With `announce`, other processes are notified of an effect that
        this process cannot perform."""
        self._acks.discard_outdated(task)
        key = task.key
        for due in only:
            runs = self._running[due]
            run = runs.get(key)
            if run is not None:
                if task.version > run.task.version:
                    run.task = task  # the effect may no longer be due
            elif due in task.due and not self._acks.is_done(task, due) and len(runs) < MAX_PENDING[due]:
                run = runs[key] = _EffectRun(task)
                run.work = self._background.spawn(f"{due} a task", self._run(due, run, announce=announce))

    def send_progress(self, task: Task, content: Mapping[str, Any]) -> None:
        """Forward a progress message to the requester and to people, in the order of the calls."""
        if self._ports.watcher is not None:
            self._ports.watcher.progress(task, content)
        reply = self._ports.replies.get(task.request.origin.protocol)
        if reply is None:
            return
        queue = self._progress.get(task.key)
        if queue is not None:
            queue.waiting.append(content)
            return
        queue = self._progress[task.key] = _ProgressQueue(deque([content], MAX_PENDING_PROGRESS))
        queue.work = self._background.spawn("report progress", self._send_queued_progress(reply, task, queue.waiting))

    # -- one effect of one task --

    async def _run(self, due: Due, run: _EffectRun, *, announce: bool) -> None:
        key = run.task.key
        failures = 0
        try:
            while True:
                if due is Due.SHOW and not failures:
                    # Most steps are followed by another one at once.
                    await asyncio.sleep(self._ports.shown_after)
                task = run.task
                if due not in task.due:
                    return
                outcome = await self._try(due, task)
                if isinstance(outcome, RetryLater):
                    failures += 1
                    delay_ms = self._ports.retry.delay_ms(failures)
                    if delay_ms is None:
                        await self._give_up(due, task, outcome)
                        return
                    await asyncio.sleep(delay_ms / 1000)
                    continue
                failures = 0
                if isinstance(outcome, NotInThisProcess):
                    if announce:
                        self._database.session.notify(TOPIC, notice_of(key))
                    return
                if isinstance(outcome, Rejected):
                    await self._step(key, Error(outcome.error))
                    return
                if due in ONCE_PER_TASK or run.task is task:
                    self._acks.record(run.task, due)
                    return
                self._acks.record(task, due)
        except ConnectionLost as error:
            self._ports.observer.problem(
                f"An effect of the task {key} stays due: the connection to Postgres is lost.", error
            )
        finally:
            del self._running[due][key]

    async def _step(self, key: TaskKey, message: Message) -> None:
        assert self._steps is not None, "it was started"
        await self._steps.apply(key, message)

    async def _try(self, due: Due, task: Task) -> Delivered | Rejected | RetryLater | NotInThisProcess:
        try:
            if due is Due.CANCEL:
                await self._after_delivery(task.key)
            elif due is Due.ANSWER:
                await self._after_progress(task.key)
            async with self._semaphores[due], asyncio.timeout(PERFORM_TIMEOUT):
                return await self._perform(due, task)
        except ConnectionLost:
            return RetryLater("The connection to Postgres is lost.")
        except TimeoutError:
            return RetryLater("It timed out.")
        except Exception as error:
            self._ports.observer.problem(f"The effect “{due}” of the task {task.key} failed.", error)
            return RetryLater("It failed.")

    async def _perform(self, due: Due, task: Task) -> Delivered | Rejected | RetryLater | NotInThisProcess:
        match due:
            case Due.DELIVER:
                delivery = self._delivery(task)
                return NotInThisProcess() if delivery is None else await delivery.deliver(task)
            case Due.CANCEL:
                delivery = self._delivery(task)
                return Delivered() if delivery is not None and await delivery.cancel(task) else NotInThisProcess()
            case Due.ANSWER:
                reply = self._ports.replies.get(task.request.origin.protocol)
                if reply is None:
                    return NotInThisProcess()
                await reply.answer(task)
            case Due.SHOW:
                if self._ports.watcher is not None:
                    await self._ports.watcher.show(task)
        return Delivered()

    def _delivery(self, task: Task) -> Delivery | None:
        agent = self._ports.routes.agent(task.request.to_address)
        return None if agent is None else self._ports.deliveries.get(agent.connector)

    async def _after_delivery(self, key: TaskKey) -> None:
        """Wait for a running delivery: the agent must be told to stop after it was told to start."""
        run = self._running[Due.DELIVER].get(key)
        if run is not None and run.work is not None:
            await asyncio.wait({run.work}, timeout=PERFORM_TIMEOUT)

    async def _after_progress(self, key: TaskKey) -> None:
        """Wait until the pending progress messages are sent: none may follow the answer."""
        queue = self._progress.get(key)
        if queue is not None and queue.work is not None:
            await asyncio.wait({queue.work}, timeout=PERFORM_TIMEOUT)

    async def _give_up(self, due: Due, task: Task, outcome: RetryLater) -> None:
        if due is Due.DELIVER:
            await self._step(task.key, Unreachable(outcome.reason))
        else:
            self._ports.observer.problem(
                f"The effect “{due}” of the task {task.key} failed and will be retried later.", None
            )

    async def _send_queued_progress(self, reply: Reply, task: Task, waiting: deque[Mapping[str, Any]]) -> None:
        try:
            while waiting:
                content = waiting.popleft()
                try:
                    async with self._semaphores[Due.ANSWER], asyncio.timeout(PERFORM_TIMEOUT):
                        await reply.progress(task, content)
                except Exception as error:
                    self._ports.observer.problem(f"A progress message of the task {task.key} could not be sent.", error)
        finally:
            del self._progress[task.key]
