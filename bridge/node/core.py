"""Puts the core of a node together: routing table, task service, local agents and connectors.

It works on a Matrix backend and a database, and knows no agent protocol: it asks connectors for their
capabilities.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from bridge.agents.agent import Agent
from bridge.agents.liveness import TIMEOUT_MS, LivenessMonitor
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.connectors.interface import Connector
from bridge.observability.agent_observer import AgentObserver
from bridge.tasks.effects import Ports
from bridge.tasks.limits import TaskLimits
from bridge.tasks.ports import Delivery, Reply, Watcher
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from bridge.tasks.service import TaskService
from storage.database import Database

SHOWN_AFTER: Final = 0.25
"""Seconds until people see the state of a task: usually more changes follow immediately, and the requester
comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCoreParts:
    """`local` creates the local agents and receives the table of their statuses; `connectors` creates the
    connectors, on the routing table and these agents. `replies` are for requesters that are not
    connectors."""

    node_id: str
    database: Database
    observer: AgentObserver
    local: Callable[[RoutingTable, AgentStatuses], LocalAgents]
    connectors: Callable[[RoutingTable, LocalAgents], Sequence[Connector]]
    replies: Mapping[str, Reply] = field(default_factory=dict)
    limits: TaskLimits = field(default_factory=TaskLimits)
    retry: RetryPolicy = DEFAULT_RETRY_POLICY
    agent_timeout_ms: int = TIMEOUT_MS
    now_ms: Callable[[], int]


class AgentCore:
    """`routes` are available before it is started, so that the port can include them. Start it after the
    Matrix backend and close it before that."""

    def __init__(self, parts: AgentCoreParts) -> None:
        self._parts = parts
        database, now_ms, observer = parts.database, parts.now_ms, parts.observer
        self.table = RoutingTable(parts.node_id, database, now_ms=now_ms, report=observer.problem)
        self.statuses = AgentStatuses(self.table, settings_of=self._settings_of, now_ms=now_ms)
        self.local = parts.local(self.table, self.statuses)
        self.connectors = tuple(parts.connectors(self.table, self.local))
        self.tasks = TaskService(
            database,
            Ports(
                deliveries={
                    **_deliveries(self.connectors, of_this_node=False),
                    **_prepared(
                        {**self.local.deliveries, **_deliveries(self.connectors, of_this_node=True)}, self.connectors
                    ),
                },
                replies={**parts.replies, **_replies(self.connectors)},
                routes=self.table,
                observer=observer,
                watcher=_watcher(self.connectors),
                retry=parts.retry,
                shown_after=SHOWN_AFTER,
            ),
            now_ms=now_ms,
            limits=parts.limits,
            settings_of=self._settings_of,
            statuses=self.statuses,
        )
        self.watch = LivenessMonitor(
            self.table,
            database,
            now_ms=now_ms,
            timeout_ms=parts.agent_timeout_ms,
            announce=self._announce,
            report=observer.problem,
        )
        for connector in self.connectors:
            connector.use_task_service(self.tasks)
        self._stack = AsyncExitStack()

    def routes(self) -> list[web.RouteDef]:
        """For the node's port. They respond once the core has been started."""
        return [route for connector in self.connectors for route in connector.routes()]

    def connector_of(self, agent: Agent) -> Connector | None:
        """The connector that registered the agent."""
        return next((one for one in self.connectors if one.name == agent.connector), None)

    async def start(self) -> None:
        """Continue what earlier processes left unfinished."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def close(self) -> None:
        """Nothing is lost: unfinished work continues at the next start."""
        await self._stack.aclose()

    async def _start(self) -> None:
        later = self._stack.push_async_callback
        await self.table.start()
        later(self.table.close)
        self._stack.callback(self.statuses.close)
        await self.watch.start()
        later(self.watch.close)
        # Agents stop while connectors can still notify other nodes, but after the task service, which would
        # otherwise count their tasks as lost.
        for connector in self.connectors:
            later(connector.close)
        await self.local.start()
        later(self.local.close)
        self.local.use_task_service(self.tasks)
        await self.tasks.start()
        later(self.tasks.close)
        later(self.local.stop)
        for connector in self.connectors:
            later(connector.stop)
        await asyncio.gather(*(connector.start() for connector in self.connectors))

    def _settings_of(self, agent: Agent) -> AgentSettings:
        found = self.local.settings(agent)
        for one in self.connectors if found is None else ():
            found = found or one.agent_settings(agent)
        return found or AgentSettings()

    async def _announce(self, lost: Sequence[Agent]) -> None:
        for connector in self.connectors:
            await connector.announce_lost(lost)


def _deliveries(connectors: Iterable[Connector], *, of_this_node: bool) -> dict[str, Delivery]:
    """To agents of this node, or to agents of other nodes."""
    return {one.name: one.delivery for one in connectors if one.delivery is not None and one.runs_tasks is of_this_node}


def _prepared(deliveries: Mapping[str, Delivery], connectors: Iterable[Connector]) -> dict[str, Delivery]:
    prepared = dict(deliveries)
    for one in connectors:
        prepared = {name: one.wrap_delivery(delivery) for name, delivery in prepared.items()}
    return prepared


def _watcher(connectors: Iterable[Connector]) -> Watcher | None:
    watchers = [one.watcher for one in connectors if one.watcher is not None]
    assert len(watchers) < 2, "tasks are shown in one place only"
    return watchers[0] if watchers else None


def _replies(connectors: Iterable[Connector]) -> dict[str, Reply]:
    return {one.name: one.reply for one in connectors if one.reply is not None}
