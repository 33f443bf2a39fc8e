"""Offices within a whole agent core: their members are agents of the node, and tasks are delivered to
them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web

from bridge.agents.agent import Agent
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.interface import Connector
from bridge.connectors.offices.connector import OfficesConnector
from bridge.connectors.offices.rooms.office_room import member_address
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import OfficeTokens
from bridge.node.core import AgentCore, AgentCoreParts
from bridge.people.permissions import Rights
from bridge.people.service.people import People
from bridge.people.settings import DEFAULT_RIGHTS
from bridge.tasks.ports import Delivery
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey, TaskRequest
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from tests.bridge.connectors.offices.clients import TIMEOUT, Running, serving
from tests.bridge.connectors.offices.connectors import room_parts
from tests.federation.nodes import Node, now_ms
from tests.support.tasks import RecordingReply, request


class NoLocalAgents:
    """`LocalAgents` of a node that has none."""

    deliveries: Mapping[str, Delivery] = {}

    def settings(self, agent: Agent) -> AgentSettings | None:
        return None

    def namespaces(self, agent: Agent) -> Collection[str]:
        return ("default",)

    def use_task_service(self, tasks: TaskService) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def close(self) -> None: ...


@dataclass
class Observer:
    """An `AgentObserver` that collects only problems."""

    problems: list[str]

    def changed(self, task: Task) -> None: ...

    def progress(self, task: Task, content: Mapping[str, Any]) -> None: ...

    def dropped(self, task: Task | None, dropped: object) -> None: ...

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append(f"{sentence} {error!r}")


@dataclass
class CoreSetup:
    running: Running
    connector: OfficesConnector
    core: AgentCore
    token: str
    node: Node

    @property
    def routes(self) -> RoutingTable:
        return self.core.table

    @property
    def tasks(self) -> TaskService:
        return self.core.tasks

    def address(self, name: str, office_id: str = "a") -> str:
        return str(member_address(office_id, name, self.node.name))

    async def submit(self, request_id: str, name: str, **changed: Any) -> TaskRequest:
        made = request(request_id, self.address(name), **changed)
        submitted = await self.tasks.submit(made)
        assert submitted.refusal is None, submitted.refusal
        return made

    async def ended(self, key: TaskKey) -> Task:
        return await self.until(key, lambda task: task.answer is not None)

    async def until(self, key: TaskKey, condition: Callable[[Task], object]) -> Task:
        async with asyncio.timeout(TIMEOUT):
            while (task := await self.tasks.task(key)) is None or not condition(task):
                await asyncio.sleep(0.01)
        return task

    async def known(self, name: str, condition: Callable[[Agent], object] = lambda agent: agent.is_online) -> Agent:
        """Wait for the routing table's entry of a member."""
        address = member_address("a", name, self.node.name)
        async with asyncio.timeout(TIMEOUT):
            while (agent := self.routes.agent(address)) is None or not condition(agent):
                await asyncio.sleep(0.01)
        return agent


@asynccontextmanager
async def core_with_offices(
    node: Node, *, rights: Rights = DEFAULT_RIGHTS, people: bool = False, **settings: Any
) -> AsyncIterator[CoreSetup]:
    """With `people`, messages in all rooms are handled as on a node."""
    problems: list[str] = []
    tokens = OfficeTokens(node.database, now_ms)
    parts = replace(room_parts(node, problems, rights), now_ms=now_ms)
    connector: OfficesConnector

    def connectors(table: RoutingTable, local: LocalAgents) -> list[Connector]:
        nonlocal connector
        connector = OfficesConnector(OfficeSettings(**settings), tokens, parts, table, report=parts.report)
        if not people:
            return [connector]
        listening = People(
            node.rooms,
            node.database,
            table,
            parts.settings,
            parts.ghosts,
            now_ms=now_ms,
            is_handled_elsewhere=connector.gateway.chat_calls.is_command,
            report=parts.report,
        )
        return [connector, listening]

    core = AgentCore(
        AgentCoreParts(
            node_id=node.name,
            database=node.database,
            observer=Observer(problems),
            local=lambda table, statuses: NoLocalAgents(),
            connectors=connectors,
            replies={"cis": RecordingReply()},
            now_ms=now_ms,
        )
    )
    app = web.Application()
    app.add_routes(core.routes())
    async with serving(app, core, connector.server, problems) as running:
        token = await tokens.create("all", ["agent", "computer"])
        yield CoreSetup(running, connector, core, token, node)
