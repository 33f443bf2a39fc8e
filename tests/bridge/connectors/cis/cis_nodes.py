"""Complete nodes in one process that exchange agents: a homeserver, an agent core, and agents that the test
controls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from aiohttp import web
from nacl.signing import SigningKey

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.local.configured import CommandProblem
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing import AgentRoutingTable
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.agents.updates import Registration, Unregistration
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.service.connector import CisConnector, CisParts, FollowPeers, fixed_peers
from bridge.connectors.cis.service.leader import LeaderServices
from bridge.connectors.cis.settings import CisSettings
from bridge.connectors.interface import Connector
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.node.core import AgentCore, AgentCoreParts
from bridge.peers.peer import Peer, PeerAccess
from bridge.tasks.answer import Answer
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.ports import Delivered, Delivery, DeliveryOutcome
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.service import TaskService
from bridge.tasks.task import State, Task
from federation.keys.server_keys import LocalKeys
from tests.federation.nodes import Node, Nodes, now_ms
from tests.support.agents import address
from tests.support.postgres import Server

TIMEOUT = 30.0
LOCAL = "scripted"
"""The name of the connector of scripted agents."""


class ScriptedAgents:
    """Agents of a node that the test controls. Implements `LocalAgents` and `Delivery`."""

    def __init__(self, table: RoutingTable, statuses: AgentStatuses) -> None:
        self.table = table
        self.delivered: asyncio.Queue[Task] = asyncio.Queue()
        self.cancelled: asyncio.Queue[Task] = asyncio.Queue()
        self.namespaces_of: dict[str, tuple[str, ...]] = {}
        self.settings_of: dict[str, AgentSettings] = {}
        self.names: dict[str, str] = {}
        self.automatic_answer: Answer | None = None
        self.clock_offset_ms = 0
        self.deliveries: Mapping[str, Delivery] = {LOCAL: self}
        self._tasks: TaskService | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def register(
        self,
        *agent_ids: str,
        runtime: str = "claude",
        capabilities: tuple[str, ...] = ("coding",),
        namespaces: tuple[str, ...] = ("default",),
    ) -> None:
        for agent_id in agent_ids:
            self.namespaces_of[agent_id] = namespaces
        places = [AgentAddress(agent_id, self.table.node_id) for agent_id in agent_ids]
        await self.table.update([Registration(one, LOCAL, runtime, capabilities, self._now_ms()) for one in places])

    async def unregister(self, agent_id: str, reason: str = "shutdown") -> None:
        gone = Unregistration(AgentAddress(agent_id, self.table.node_id), reason, self._now_ms())
        await self.table.update([gone])

    def _now_ms(self) -> int:
        return now_ms() + self.clock_offset_ms

    def problems(self) -> Mapping[AgentAddress, CommandProblem]:
        return {}

    def namespaces(self, agent: Agent) -> Collection[str]:
        return self.namespaces_of.get(agent.agent_id, ("default",))

    def settings(self, agent: Agent) -> AgentSettings | None:
        return self.settings_of.get(agent.agent_id, AgentSettings(None))

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks

    async def start(self) -> None: ...

    async def stop(self) -> None:
        for work in self._running:
            work.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def close(self) -> None: ...

    async def deliver(self, task: Task) -> DeliveryOutcome:
        self.delivered.put_nowait(task)
        if self.automatic_answer is not None:
            work = asyncio.create_task(self.run(task, self.automatic_answer))
            self._running.add(work)
            work.add_done_callback(self._running.discard)
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        self.cancelled.put_nowait(task)
        return True

    async def run(self, task: Task, answer: Answer, *progress: Mapping[str, Any]) -> None:
        assert self._tasks is not None
        if await self._tasks.begin(task.key, by=task.request.to_address) is None:
            return
        for content in progress:
            await self._tasks.progress(task.key, content, by=task.request.to_address)
        await self._tasks.finish(task.key, answer, by=task.request.to_address)


class Requester:
    """A requester of tasks on a node, with a protocol of its own. It records progress and answers."""

    PROTOCOL = "test"

    def __init__(self) -> None:
        self.answered: asyncio.Queue[Task] = asyncio.Queue()
        self.heard: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self.heard.put_nowait(content)

    async def answer(self, task: Task) -> None:
        self.answered.put_nowait(task)


class RecordingObserver:
    """Records what `CisObserver` and `AgentObserver` are called with."""

    def __init__(self) -> None:
        self.records: list[EventRecord] = []
        self.drops: list[DroppedMessage] = []
        self.problems: list[tuple[str, BaseException | None]] = []
        self._changed = asyncio.Event()

    def record(self, record: EventRecord) -> None:
        self.records.append(record)
        self._changed.set()

    def changed(self, task: Task) -> None: ...

    def progress(self, task: Task, content: Mapping[str, Any]) -> None: ...

    def dropped(self, task: Task | None, dropped: DroppedMessage) -> None:
        self.drops.append(dropped)
        self._changed.set()

    def report_problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append((sentence, error))
        self._changed.set()

    problem = report_problem

    async def until(self, condition: Callable[["RecordingObserver"], object]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def until_recorded(self, verdict: Verdict, type_: str, peer: str | None = None) -> EventRecord:
        def found() -> list[EventRecord]:
            return [
                record
                for record in self.records
                if record.verdict is verdict and record.type == type_ and peer in (None, record.peer)
            ]

        await self.until(lambda _: found())
        return found()[0]


@dataclass
class CisNode:
    node: Node
    core: AgentCore
    connector: CisConnector
    local_agents: ScriptedAgents
    requester: Requester
    observer: RecordingObserver
    settings: CisSettings
    is_open: bool = field(default=False)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def routes(self) -> RoutingTable:
        return self.core.table

    @property
    def table(self) -> AgentRoutingTable:
        return self.core.table.table

    async def close(self) -> None:
        if self.is_open:
            self.is_open = False
            await self.core.close()

    async def until(self, condition: Callable[[AgentRoutingTable], object]) -> None:
        """Wait until the node's routing table meets a condition."""
        changed = asyncio.Event()
        end = self.routes.subscribe(lambda changes: changed.set())
        try:
            async with asyncio.timeout(TIMEOUT):
                while not condition(self.table):
                    changed.clear()
                    await changed.wait()
        finally:
            end()

    async def wait_online(self, text: str) -> Agent:
        """Wait until the agent is online in this node's routing table."""

        def here(table: AgentRoutingTable) -> bool:
            agent = table.agent(address(text))
            return agent is not None and agent.is_online

        await self.until(here)
        agent = self.table.agent(address(text))
        assert agent is not None
        return agent

    async def wait_offline(self, text: str) -> Agent:
        """Wait until the agent is offline in this node's routing table."""

        def gone(table: AgentRoutingTable) -> bool:
            agent = table.agent(address(text))
            return agent is not None and not agent.is_online

        await self.until(gone)
        agent = self.table.agent(address(text))
        assert agent is not None
        return agent

    async def wait_leader(self) -> LeaderServices:
        """Wait until this process is the leader."""
        async with asyncio.timeout(TIMEOUT):
            while self.connector._leader is None:
                await asyncio.sleep(0.02)
        return self.connector._leader

    async def wait_joined(self, node_id: str) -> None:
        """Wait until the node has joined all rooms of a peer."""
        lead = await self.wait_leader()
        async with asyncio.timeout(TIMEOUT):
            while not lead.joiner.has_joined_all(node_id):
                await asyncio.sleep(0.02)

    async def ask(self, to: str, request_id: str = "req-1", **changed: Any) -> TaskKey:
        """Submit a task from this node's coordinator."""
        key = TaskKey(self.name, request_id)
        known: dict[str, Any] = {
            "key": key,
            "task_id": f"task-{request_id}",
            "from_address": AgentAddress("coordinator", self.name),
            "to_address": address(to),
            "prompt": "Implement a function",
            "origin": Origin(Requester.PROTOCOL),
        }
        submitted = await self.core.tasks.submit(TaskRequest(**{**known, **changed}))
        assert submitted.refusal is None, submitted.refusal
        return key

    async def answered(self) -> Task:
        async with asyncio.timeout(TIMEOUT):
            return await self.requester.answered.get()

    async def given(self) -> Task:
        """Return the next task that is delivered to one of the node's agents."""
        async with asyncio.timeout(TIMEOUT):
            return await self.local_agents.delivered.get()

    async def task(self, key: TaskKey) -> Task:
        task = await self.core.tasks.task(key)
        assert task is not None
        return task

    async def until_state(self, key: TaskKey, state: State) -> Task:
        async with asyncio.timeout(TIMEOUT):
            while (task := await self.core.tasks.task(key)) is None or task.state is not state:
                await asyncio.sleep(0.02)
        return task


def peers_of(*names: str, **peers: PeerAccess) -> dict[str, PeerAccess]:
    return {**{name: PeerAccess(Peer(name)) for name in names}, **peers}


QUICK = CisSettings("nobody", heartbeat_ms=500, status_pause_ms=50, retry_ms=100, longest_retry_ms=400)


class CisNodes(Nodes):
    """`clocks` has the clock offsets of nodes in milliseconds. `follow_peers` has the subscription to changed
    peers of nodes whose peers change."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._made: dict[str, CisNode] = {}
        self._settings: dict[str, CisSettings] = {}
        self.clocks: dict[str, int] = {}
        self.follow_peers: dict[str, FollowPeers] = {}
        self.agent_timeout_ms = 120_000

    async def start_peers(self, *names: str, **changed: Any) -> list[CisNode]:
        """Start nodes that are configured as each other's peers."""
        for name in names:
            others = peers_of(*(other for other in names if other != name))
            self._settings[name] = replace(QUICK, **{"node_id": name, "peers": others, **changed})
        return await self.start_with(*(self._settings[name] for name in names))

    async def start_with(self, *settings: CisSettings) -> list[CisNode]:
        _, begun = await self.start_beside((), *settings)
        return begun

    async def start_beside(
        self, homeservers: Sequence[str], *settings: CisSettings
    ) -> tuple[list[Node], list[CisNode]]:
        """Start nodes, and homeservers without agents."""
        for one in settings:
            self._settings[one.node_id] = one
        started = await self.start(*homeservers, *(one.node_id for one in settings))
        begun = [await self.open(self._made[one.node_id]) for one in settings]
        return started[: len(homeservers)], begun

    async def open(self, one: CisNode) -> CisNode:
        await one.core.start()
        one.is_open = True
        self._stack.push_async_callback(one.close)
        return one

    async def reopen(self, one: CisNode, **changed: Any) -> CisNode:
        """Start a closed node again. Its port has stayed open."""
        self._settings[one.name] = replace(one.settings, **changed)
        return await self.open(self._make(one.node))

    def _make(self, node: Node) -> CisNode:
        settings, observer = self._settings[node.name], RecordingObserver()
        ahead = self.clocks.get(node.name, 0)
        requester = Requester()
        local_agents: ScriptedAgents
        connector: CisConnector

        def clock() -> int:
            return now_ms() + ahead

        def local(table: RoutingTable, statuses: AgentStatuses) -> ScriptedAgents:
            nonlocal local_agents
            local_agents = ScriptedAgents(table, statuses)
            return local_agents

        def connectors(table: RoutingTable, agents: LocalAgents) -> Sequence[Connector]:
            nonlocal connector
            connector = CisConnector(
                CisParts(
                    backend=self._backend(node),
                    database=node.database,
                    routes=table,
                    ghosts=Ghosts(
                        node.rooms,
                        node.database,
                        table,
                        names=HomeserverGhostNames(node.name),
                        name_of=lambda agent: local_agents.names.get(agent.agent_id),
                        report=observer.problem,
                    ),
                    settings=settings,
                    names=HomeserverGhostNames(node.name),
                    observer=observer,
                    namespaces_of=agents.namespaces,
                    key=lambda: SigningKey(node.name.encode().ljust(32, b".")),
                    version="test",
                    now_ms=clock,
                    follow_peers=self.follow_peers.get(node.name, fixed_peers),
                    admits=node.homeserver.settings.policy.admits,
                )
            )
            return [connector]

        core = AgentCore(
            AgentCoreParts(
                node_id=node.name,
                database=node.database,
                observer=observer,
                local=local,
                connectors=connectors,
                replies={Requester.PROTOCOL: requester},
                agent_timeout_ms=self.agent_timeout_ms,
                now_ms=clock,
            )
        )
        made = CisNode(node, core, connector, local_agents, requester, observer, settings)
        self._made[node.name] = made
        return made

    def _backend(self, node: Node) -> MatrixBackend:
        return node.rooms

    def _app(self, node: Node, keys: LocalKeys) -> web.Application:
        app = super()._app(node, keys)
        # Others are homeservers and nothing more.
        if node.name in self._settings:
            app.add_routes(self._make(node).core.routes())
        return app


@contextlib.asynccontextmanager
async def cis_nodes(server: Server, template: str, **how: Any) -> AsyncIterator[CisNodes]:
    async with AsyncExitStack() as stack:
        yield CisNodes(server, template, stack, **how)
