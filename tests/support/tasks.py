"""Task services for tests: connectors that record their calls, and processes that can be killed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge.agents.routing_table import RoutingTable
from bridge.tasks.answer import Answer
from bridge.tasks.effects import Ports
from bridge.tasks.errors import ErrorCode
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.ports import Delivered, DeliveryOutcome
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.service import TaskService
from bridge.tasks.task import State, Task
from storage.database import Database
from tests.support.agents import Clock, address, routing_table
from tests.support.postgres import as_another_process

HERE = "here"


def request(request_id: str = "req-1", to: str = "worker@here", **changed: Any) -> TaskRequest:
    known: dict[str, Any] = {
        "key": TaskKey("living", request_id),
        "task_id": f"task-{request_id}",
        "from_address": address("coordinator@living"),
        "to_address": address(to),
        "prompt": "Implement a function",
        "origin": Origin("cis", {"event_id": "$1"}),
    }
    return TaskRequest(**{**known, **changed})


def error_code(answer: Answer | None) -> ErrorCode | None:
    """The error code of a task that failed."""
    assert answer is not None
    assert not answer.success
    return answer.error_code


class RecordingDelivery:
    """A `Delivery` that records its calls and returns the outcomes that the test sets."""

    def __init__(self) -> None:
        self.delivered: asyncio.Queue[Task] = asyncio.Queue()
        self.cancelled: asyncio.Queue[Task] = asyncio.Queue()
        self.outcomes: list[DeliveryOutcome | Exception] = []
        self.has_agent = True

    async def deliver(self, task: Task) -> DeliveryOutcome:
        self.delivered.put_nowait(task)
        outcome = self.outcomes.pop(0) if self.outcomes else Delivered()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def cancel(self, task: Task) -> bool:
        if self.has_agent:
            self.cancelled.put_nowait(task)
        return self.has_agent


class RecordingReply:
    """A `Reply` that records its calls."""

    def __init__(self) -> None:
        self.answered: asyncio.Queue[Task] = asyncio.Queue()
        self.heard: asyncio.Queue[tuple[TaskKey, Mapping[str, Any]]] = asyncio.Queue()
        self.failures = 0

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self.heard.put_nowait((task.key, content))

    async def answer(self, task: Task) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the requester is away")
        self.answered.put_nowait(task)


class RecordingWatcher:
    """A `Watcher` that records its calls."""

    def __init__(self) -> None:
        self.seen: asyncio.Queue[Task] = asyncio.Queue()
        self.heard: asyncio.Queue[tuple[TaskKey, Mapping[str, Any]]] = asyncio.Queue()

    async def show(self, task: Task) -> None:
        self.seen.put_nowait(task)

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self.heard.put_nowait((task.key, content))


class RecordingObserver:
    """An `AgentObserver` that records its calls."""

    def __init__(self) -> None:
        self.states: list[tuple[str, State]] = []
        self.drops: list[tuple[str | None, DroppedMessage]] = []
        self.problems: list[str] = []

    def changed(self, task: Task) -> None:
        self.states.append((task.key.request_id, task.state))

    def progress(self, task: Task, content: Mapping[str, Any]) -> None: ...

    def dropped(self, task: Task | None, dropped: DroppedMessage) -> None:
        self.drops.append((None if task is None else task.key.request_id, dropped))

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append(sentence)


@dataclass
class Process:
    """A task service with everything that it needs."""

    database: Database
    routes: RoutingTable
    clock: Clock
    tasks: TaskService
    delivery: RecordingDelivery
    requester: RecordingReply
    watcher: RecordingWatcher
    observer: RecordingObserver
    settings: dict[str, AgentSettings] = field(default_factory=dict)
    is_dead: bool = False

    async def task(self, request_id: str = "req-1") -> Task:
        task = await self.tasks.task(TaskKey("living", request_id))
        assert task is not None
        return task

    async def run(self, request_id: str = "req-1") -> Task:
        """Start a task, as its agent does."""
        task = await self.tasks.begin(TaskKey("living", request_id))
        assert task is not None
        return task

    def skip_effects(self) -> None:
        """From now on the process behaves as if killed between each commit and its effects."""
        self.tasks._steps.committed = lambda before, step: None  # type: ignore[method-assign]

    async def kill(self) -> None:
        """Like `kill -9`: nothing is finished or flushed, and the Postgres session ends."""
        tasks = self.tasks
        await tasks._background.close()
        connection = self.database.session._connection
        assert connection is not None
        pid = connection.get_server_pid()
        connection.terminate()
        await self.database.session._tasks.close()
        self.is_dead = True
        async with self.database.connection() as other:
            # The server notices the end a moment later.
            while await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):
                await asyncio.sleep(0.01)

    async def settled(self) -> None:
        """Wait until no effect runs and all acknowledgements are stored."""
        while self.tasks._background._spawned or not self.tasks._effects.is_idle:
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def process(
    database: Database,
    clock: Callable[[], int] | None = None,
    *,
    delivery: RecordingDelivery | None = None,
    started: bool = True,
    **changed: Any,
) -> AsyncIterator[Process]:
    """A further process of the node, on this database."""
    database = as_another_process(database)
    now_ms = Clock() if clock is None else clock
    delivery = RecordingDelivery() if delivery is None else delivery
    requester, watcher, observer = RecordingReply(), RecordingWatcher(), RecordingObserver()
    settings: dict[str, AgentSettings] = {}
    async with routing_table(database, HERE, now_ms=now_ms) as routes:
        tasks = TaskService(
            database,
            Ports({"cis": delivery}, {"cis": requester}, routes, observer, watcher),
            now_ms=now_ms,
            **{
                "settings_of": lambda agent: settings.get(agent.agent_id, AgentSettings()),
                "sweep_interval": 3600.0,
                **changed,
            },
        )
        one = Process(
            database,
            routes,
            now_ms,  # type: ignore[arg-type]
            tasks,
            delivery,
            requester,
            watcher,
            observer,
            settings,
        )
        try:
            if started:
                await tasks.start()
            yield one
        finally:
            if not one.is_dead:
                await tasks.close()
