"""A node with a task service, and with agents that a test configures."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.attached.attached import AttachedAgents, AttachedLimits, no_reservation
from bridge.agents.attached.work import AttachedWork
from bridge.agents.local.configured import ConfiguredAgents
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.clock import monotonic
from bridge.config.agents import Agent as Configured
from bridge.tasks.effects import Ports
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from storage.database import Database
from tests.support.agents import Clock, address, routing_table
from tests.support.tasks import RecordingObserver, RecordingReply, RecordingWatcher, request

# Shorter than the timeout of a test, so that the failure shows where the test hangs.
TIMEOUT = 45.0


@dataclass
class AgentNode:
    routes: RoutingTable
    tasks: TaskService
    local: LocalAgents
    requester: RecordingReply
    observer: RecordingObserver

    @property
    def configured(self) -> ConfiguredAgents:
        return self.local.configured

    @property
    def attached(self) -> AttachedAgents:
        return self.local.attached

    @property
    def work(self) -> AttachedWork:
        return self.local.work

    async def ask(self, request_id: str, to: str = "worker@here", **changed: Any) -> None:
        submitted = await self.tasks.submit(request(request_id, to, **changed))
        assert submitted.is_new

    async def answered(self) -> Task:
        async with asyncio.timeout(TIMEOUT):
            return await self.requester.answered.get()

    async def task(self, request_id: str) -> Task:
        task = await self.tasks.task(TaskKey("living", request_id))
        assert task is not None
        return task

    async def status_is(self, status: AgentStatus, agent: str = "worker@here") -> Agent:
        """Wait for a status."""
        changed = Event(self.routes)
        try:
            async with asyncio.timeout(TIMEOUT):
                while (found := self.routes.agent(address(agent))) is None or found.status is not status:
                    await changed.wait()
        finally:
            changed.close()
        return found


class Event:
    """Set when the routing table has changed."""

    def __init__(self, routes: RoutingTable) -> None:
        self._event = asyncio.Event()
        self.close = routes.subscribe(lambda changes: self._event.set())

    async def wait(self) -> None:
        await self._event.wait()
        self._event.clear()


@contextlib.asynccontextmanager
async def agent_node(
    database: Database,
    directory: Path,
    agents: Sequence[Configured] = (),
    *,
    grace: float = 60.0,
    limits: AttachedLimits | None = None,
    monotonic: Callable[[], float] = monotonic,
    reserved_for: Callable[[AgentAddress], str | None] = no_reservation,
    killed: bool = False,
    **changed: Any,
) -> AsyncIterator[AgentNode]:
    """A node as `bridge.run` assembles it. At the end it stops in order or, if `killed`, without
    unregistering its agents."""
    clock = changed.pop("clock", Clock())
    requester, observer = RecordingReply(), RecordingObserver()
    async with routing_table(database, now_ms=clock) as routes:

        def settings_of(agent: Agent) -> AgentSettings:
            return local.settings(agent) or AgentSettings()

        statuses = AgentStatuses(routes, settings_of=settings_of, now_ms=clock)
        local = LocalAgents(
            agents, routes, statuses, directory=directory, now_ms=clock, monotonic=monotonic, limits=limits,
            environment={"PATH": "/usr/local/bin:/usr/bin:/bin"}, grace=grace, reserved_for=reserved_for,
        )  # fmt: skip
        tasks = TaskService(
            database, Ports(local.deliveries, {"cis": requester}, routes, observer, RecordingWatcher()),
            now_ms=clock, settings_of=settings_of, statuses=statuses, **{"sweep_interval": 3600.0, **changed},
        )  # fmt: skip
        await local.start()
        local.use_task_service(tasks)
        try:
            await tasks.start()
            yield AgentNode(routes, tasks, local, requester, observer)
        finally:
            await local.stop()
            # From here on no task is started for agents that go offline.
            await tasks.close()
            if killed:
                await local.attached.close()
            else:
                await local.close()
            statuses.close()
