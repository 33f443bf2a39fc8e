"""An agent core with agents that a test controls, and the operator's commands for agents and tasks."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.control.agents.commands import PROTOCOL, CommandContext, OperatorReply, commands, streams
from bridge.control.stream import Items
from bridge.node.core import AgentCore, AgentCoreParts
from bridge.observability.live_feed import LiveFeed
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from storage.database import Database
from tests.bridge.connectors.cis.cis_nodes import TIMEOUT, ScriptedAgents
from tests.federation.nodes import now_ms

HERE = "here.test"


class RecordingObserver:
    """Implements `AgentObserver`, and passes everything on to a live feed."""

    def __init__(self, feed: LiveFeed) -> None:
        self.problems: list[tuple[str, BaseException | None]] = []
        self.changed = feed.changed
        self.progress = feed.progress
        self._feed = feed

    def progress(self, task: Task, content: Mapping[str, Any]) -> None: ...

    def dropped(self, task: Task | None, dropped: DroppedMessage) -> None:
        self._feed.dropped(task, dropped)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append((sentence, error))


@dataclass
class Operated:
    """`ask("agents-list", node="a")` does what the command line does."""

    parts: CommandContext
    core: AgentCore
    local_agents: ScriptedAgents
    observer: RecordingObserver

    @property
    def table(self) -> RoutingTable:
        return self.core.table

    async def ask(self, command: str, /, **given: Any) -> Mapping[str, Any]:
        answer = await commands(self.parts)[command](given)
        # Whatever is answered must pass through the socket.
        said: Mapping[str, Any] = json.loads(json.dumps(dict(answer)))
        return said

    @contextlib.asynccontextmanager
    async def stream(self, name: str, /, **given: Any) -> AsyncIterator[Items]:
        """Open a stream, to be read with `item`."""
        async with contextlib.aclosing(await streams(self.parts)[name](given)) as items:
            yield items

    async def whole(self, name: str, /, **given: Any) -> list[Mapping[str, Any]]:
        """Read a stream to its end."""
        async with asyncio.timeout(TIMEOUT), self.stream(name, **given) as items:
            return [json.loads(json.dumps(dict(one))) async for one in items]

    async def task(self, text: str) -> Task:
        found = await self.core.tasks.task(TaskKey(HERE, text))
        assert found is not None
        return found

    async def given(self) -> Task:
        """Return the next task that is delivered to one of the agents."""
        async with asyncio.timeout(TIMEOUT):
            return await self.local_agents.delivered.get()


async def item(items: Items, **wanted: Any) -> Mapping[str, Any]:
    """Return the next item that contains these members."""
    async with asyncio.timeout(TIMEOUT):
        async for one in items:
            if wanted.items() <= one.items():
                said: Mapping[str, Any] = json.loads(json.dumps(dict(one)))
                return said
    raise AssertionError(f"it ended without {wanted}")


@contextlib.asynccontextmanager
async def operated(database: Database, **changed: Any) -> AsyncIterator[Operated]:
    """Start a process of the node `here.test`."""
    feed, reply = LiveFeed(now_ms=now_ms), OperatorReply()
    local_agents: ScriptedAgents

    def local(table: RoutingTable, statuses: AgentStatuses) -> ScriptedAgents:
        nonlocal local_agents
        local_agents = ScriptedAgents(table, statuses)
        return local_agents

    observer = RecordingObserver(feed)
    core = AgentCore(
        AgentCoreParts(
            node_id=HERE,
            database=database,
            observer=observer,
            local=local,
            connectors=lambda table, agents: [],
            replies={PROTOCOL: reply},
            now_ms=now_ms,
        )
    )
    end = core.table.subscribe(feed.agents_changed)
    parts = CommandContext(
        node_id=HERE,
        database=database,
        routes=core.table,
        tasks=core.tasks,
        local=core.local,
        replies=reply,
        feed=feed,
        configured=changed.pop("configured", ()),
        now_ms=now_ms,
        for_people=changed.pop("for_people", None),
    )
    await core.start()
    try:
        yield Operated(parts, core, local_agents, observer)
    finally:
        end()
        await core.close()
