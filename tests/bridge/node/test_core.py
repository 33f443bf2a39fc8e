"""The core of a node, with minimal parts."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.interface import Connector
from bridge.node.core import AgentCore, AgentCoreParts
from bridge.tasks.answer import Answer
from bridge.tasks.ports import Delivery, DeliveryOutcome
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from bridge.tasks.task import State, Task
from storage.database import Database
from tests.support.agents import Clock, address, registered
from tests.support.tasks import RecordingDelivery, RecordingObserver, RecordingReply, RecordingWatcher, request


class Log:
    """What happened, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def note(self, entry: str) -> Callable[..., Awaitable[None]]:
        async def noted(*_: Any) -> None:
            self.entries.append(entry)

        return noted


class Local:
    """Satisfies `LocalAgents`."""

    def __init__(self, log: Log) -> None:
        self.delivery = RecordingDelivery()
        self.deliveries: Mapping[str, Delivery] = {"local": self.delivery}
        self.log = log
        self.start, self.stop, self.close = (log.note(f"local {what}") for what in ("start", "stop", "close"))

    def settings(self, agent: Agent) -> AgentSettings | None:
        return AgentSettings(1, 5) if agent.agent_id == "context" else None

    def namespaces(self, agent: Agent) -> Collection[str]:
        return ("default",)

    def use_task_service(self, tasks: TaskService) -> None:
        self.log.entries.append("local works")


class Noting(Connector):
    def __init__(self, log: Log) -> None:
        self.note = log.note

    async def start(self) -> None:
        await self.note(f"{self.name} start")()

    async def stop(self) -> None:
        await self.note(f"{self.name} stop")()

    async def close(self) -> None:
        await self.note(f"{self.name} close")()


class Bare(Noting):
    """A connector without capabilities."""

    name = "bare"


class Able(Noting):
    """A connector with all capabilities."""

    name = "able"

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.delivery, self.reply, self.watcher = RecordingDelivery(), RecordingReply(), RecordingWatcher()
        self.lost: asyncio.Queue[Sequence[Agent]] = asyncio.Queue()
        self.prepared_tasks: list[Task] = []
        self.tasks: TaskService | None = None

    def use_task_service(self, tasks: TaskService) -> None:
        self.tasks = tasks

    def routes(self) -> list[str]:
        return ["a route"]

    def wrap_delivery(self, delivery: Delivery) -> Delivery:
        return Preparing(self, delivery)

    async def announce_lost(self, lost: Sequence[Agent]) -> None:
        self.lost.put_nowait(lost)


class Busy(Noting):
    """A connector with local agents."""

    name = "busy"
    runs_tasks = True

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.delivery = RecordingDelivery()
        self.log = log

    def agent_settings(self, agent: Agent) -> AgentSettings | None:
        return AgentSettings(1, 7) if agent.connector == self.name else None

    def use_task_service(self, tasks: TaskService) -> None:
        self.log.entries.append("busy works")


class Preparing:
    def __init__(self, able: Able, delivery: Delivery) -> None:
        self.able, self.delivery = able, delivery

    async def deliver(self, task: Task) -> DeliveryOutcome:
        self.able.prepared_tasks.append(task)
        return await self.delivery.deliver(task)

    async def cancel(self, task: Task) -> bool:
        return await self.delivery.cancel(task)


class House:
    def __init__(self, database: Database, *, able: bool = True, busy: bool = False) -> None:
        self.log = Log()
        self.clock = Clock()
        self.local = Local(self.log)
        self.bare, self.able, self.busy = Bare(self.log), Able(self.log), Busy(self.log)

        def connectors(table: RoutingTable, agents: LocalAgents) -> Sequence[Connector]:
            assert agents is self.local
            some: list[Connector] = [self.bare, self.able] if able else [self.bare]
            return [*some, self.busy] if busy else some

        self.core = AgentCore(
            AgentCoreParts(
                node_id="here",
                database=database,
                observer=RecordingObserver(),
                local=lambda table, statuses: self.local,
                connectors=connectors,
                replies={"cis": RecordingReply()},
                now_ms=self.clock,
            )
        )


async def test_start_and_stop_order(database: Database) -> None:
    """Agents start before tasks arrive; no request arrives while the task service closes; agents stop while
    others can still be notified."""
    house = House(database)
    assert house.core.routes() == ["a route"]
    await house.core.start()
    await house.core.close()
    assert house.log.entries == [
        "local start",
        "local works",
        "bare start",
        "able start",
        "able stop",
        "bare stop",
        "local stop",
        "local close",
        "able close",
        "bare close",
    ]


async def test_task_between_connectors(database: Database) -> None:
    """The core knows no protocol. Tasks for local agents pass the wrappers first; people see them."""
    house = House(database)
    await house.core.start()
    await house.core.table.update(
        [registered("worker@here", connector="local"), registered("far@there", connector="able")]
    )
    assert house.able.tasks is house.core.tasks
    for to, delivery in (("worker@here", house.local.delivery), ("far@there", house.able.delivery)):
        await house.able.tasks.submit(request(to, to, key=TaskKey("there", to)))
        task = await delivery.delivered.get()
        assert str(task.request.to_address) == to
    assert [str(task.request.to_address) for task in house.able.prepared_tasks] == ["worker@here"]
    by, key = address("worker@here"), TaskKey("there", "worker@here")
    await house.core.tasks.begin(key, by=by)
    await house.core.tasks.finish(key, Answer(True, "ok", 0), by=by)
    while (await house.able.watcher.seen.get()).state is not State.DONE:
        pass
    await house.core.close()


async def test_connector_with_local_agents(database: Database) -> None:
    """They receive tasks while the service runs, through the wrappers."""
    house = House(database, busy=True)
    await house.core.start()
    await house.core.table.update([registered("worker@here", connector="busy")])
    tasks = house.core.tasks
    for number in range(2):
        await tasks.submit(request(f"{number}", "worker@here", key=TaskKey("there", f"{number}")))
    assert (await house.busy.delivery.delivered.get()).key == TaskKey("there", "0")
    task = await tasks.task(TaskKey("there", "1"))
    assert task is not None
    assert task.state is State.QUEUED
    assert [one.key.request_id for one in house.able.prepared_tasks] == ["0"]
    await house.core.close()
    entries = house.log.entries
    assert entries.index("busy works") < entries.index("busy start")
    assert max(entries.index("able stop"), entries.index("busy stop")) < entries.index("local stop")
    assert entries.index("busy stop") < entries.index("busy close")


async def test_settings_of_local_agents(database: Database) -> None:
    """The default is one task at a time; statuses reach the table."""
    house = House(database)
    await house.core.start()
    table, tasks = house.core.table, house.core.tasks
    await table.update([registered("worker@here", connector="local"), registered("context@here", connector="local")])
    changed = asyncio.Event()
    table.subscribe(lambda changes: changed.set())
    states = {}
    for name in ("worker@here", "context@here"):
        for number in range(2):
            key = TaskKey("there", f"{name} {number}")
            submitted = await tasks.submit(request(key.request_id, name, key=key))
            assert submitted.task is not None
            states[name] = submitted.task.state
    assert states == {"worker@here": State.FAILED, "context@here": State.QUEUED}
    await tasks.begin(TaskKey("there", "worker@here 0"))
    while True:
        agent = table.agent(address("worker@here"))
        if agent is not None and agent.status is AgentStatus.BUSY:
            break
        changed.clear()
        await changed.wait()
    await house.core.close()


async def test_lost_agents_are_announced(database: Database) -> None:
    """By each connector with peers."""
    house = House(database)
    await house.core.start()
    await house.core.watch.check()
    await house.core.table.update([registered("w@there", sends_heartbeats=True, sent_at=house.clock())])
    for _ in range(12):
        house.clock.advance(15_000)
        await house.core.watch.check()
    [lost] = await house.able.lost.get()
    assert lost.address == address("w@there")
    await house.core.close()


async def test_failed_start_closes_everything(database: Database) -> None:
    """What was started is closed."""
    house = House(database, able=False)

    async def fail() -> None:
        raise KeyError("no")

    house.bare.start = fail
    with pytest.raises(KeyError):
        await house.core.start()
    assert house.log.entries == ["local start", "local works", "bare stop", "local stop", "local close", "bare close"]
