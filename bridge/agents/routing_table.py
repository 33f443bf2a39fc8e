"""The routing table that all processes of a node share: in Postgres, with a copy in the memory of each
process.

Updates of agents are decided on the database's rows, which are locked meanwhile, and written in the caller's
transaction. The memory only follows the database: after each commit of this process, after a notification of
another process, and every 30 seconds. A node's heartbeat that changes nothing writes one row, and sends no
notification.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentNode, AgentStatus
from bridge.agents.registrar import AgentRegistrar, AppliedUpdates, RegistrarLimits
from bridge.agents.routing import AgentRoutingTable, Route, Target
from bridge.agents.updates import AgentHeartbeat, StatusUpdate, Update, UpdateOutcome
from bridge.observability.report import Report
from storage.agents import agents
from storage.agents.agents import AgentRow
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database

TOPIC: Final = "agents"
"""Topic of the notifications that the table has changed."""
WRITE_BEHIND_DELAY: Final = 0.1
"""Seconds for which updates are collected before they are written behind."""
MAX_PENDING_UPDATES: Final = 50_000


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one agent. `before` is None for a new agent, `after` for a pruned one."""

    before: Agent | None
    after: Agent | None


Listener = Callable[[Sequence[Change]], None]


class RoutingTable:
    """`table` is the copy in this process. Only this class writes to it."""

    def __init__(
        self,
        node_id: str,
        database: Database,
        *,
        now_ms: Callable[[], int],
        report: Report = lambda sentence, error: None,
        limits: RegistrarLimits | None = None,
    ) -> None:
        self.node_id = node_id
        self.table = AgentRoutingTable()
        self._database = database
        self._now_ms = now_ms
        self._report = report
        self._intake = AgentRegistrar(self.table, limits or RegistrarLimits())
        self._listeners: list[Listener] = []
        self._horizon: int | None = None
        self._refreshing = asyncio.Lock()
        self._refreshes_requested = 0
        self._refreshes_done = 0
        self._notified = asyncio.Event()
        self._pending: dict[AgentAddress, StatusUpdate | AgentHeartbeat] = {}
        self._to_write = asyncio.Event()
        self._background = BackgroundTasks()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Load all agents, and follow the changes."""
        async with self._database.transaction() as connection:
            await agents.reset_change_numbers(connection)
        await self.refresh()
        self._unsubscribe = self._database.session.subscribe(TOPIC, lambda _: self._notified.set())
        self._background.supervise("routing table", self._follow)
        self._background.supervise("statuses of agents", self._write_behind)

    async def close(self) -> None:
        self._unsubscribe()
        await self._background.close()
        with contextlib.suppress(ConnectionLost):
            await self._write_pending()

    # -- queries --

    def route(self, target: Target) -> Route:
        return self.table.route(target, self.node_id)

    def explain(self, target: Target) -> str:
        return self.table.explain(target, self.node_id, self._now_ms())

    def agent(self, address: AgentAddress) -> Agent | None:
        return self.table.agent(address)

    def agent_of(self, row: AgentRow) -> Agent:
        """The agent of a database row."""
        return self._intake.agent_of(row)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change, whichever process made it. Returns a function that ends the
        subscription."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    # -- updates --

    async def apply(self, connection: Connection, updates: Sequence[Update]) -> AppliedUpdates:
        """Apply updates in the caller's transaction; call `committed` after the commit. Applying an update
        again changes nothing."""
        return await self._intake.apply(connection, updates, self._now_ms())

    async def committed(self, applied: AppliedUpdates) -> None:
        """Publish applied updates after their transaction was committed. On return this process knows
        them."""
        for heartbeat in applied.heartbeats:
            self.table.record_heartbeat(heartbeat.node_id, self._now_ms(), heartbeat.sent_at)
        if applied.has_changed:
            self._database.session.notify(TOPIC)
            await self.refresh()

    async def update(self, updates: Sequence[Update]) -> list[UpdateOutcome]:
        """Apply and publish updates in a transaction of its own."""
        async with self._database.transaction() as connection:
            applied = await self.apply(connection, updates)
        await self.committed(applied)
        return applied.outcomes

    def update_later(self, update: StatusUpdate | AgentHeartbeat) -> None:
        """Apply an update with a short delay, only the newest one for each agent. A kill may lose it; the
        next heartbeat repeats it."""
        if len(self._pending) < MAX_PENDING_UPDATES or update.address in self._pending:
            before = self._pending.get(update.address)
            if before is None or before.sent_at <= update.sent_at:
                self._pending[update.address] = _merge(before, update)
                self._to_write.set()

    async def set_node(self, node_id: str, url: str | None, *, trusted: bool) -> None:
        """Set a node's URL and trust, as the configuration or an operator says. The agents of an untrusted
        node go offline."""
        async with self._database.transaction() as connection:
            await agents.write_node(connection, node_id, url, self._now_ms(), trusted=trusted)
            if not trusted:
                await agents.distrust_node(connection, node_id, self._now_ms())
        await self.notify_changed()

    async def notify_changed(self) -> None:
        """Publish a change that was written to the database directly. On return this process knows it."""
        self._database.session.notify(TOPIC)
        await self.refresh()

    def record_own_heartbeat(self) -> None:
        """Record that this node, and so its agents, are online."""
        self.table.record_heartbeat(self.node_id, self._now_ms(), 0)

    def prune_offline(self, before_ms: int) -> None:
        """Remove agents from memory that went offline before a time."""
        offline = [agent for agent in self.table.agents() if (agent.gone_at or before_ms) < before_ms]
        for agent in offline:
            self.table.remove(agent.address)
        self._notify_listeners([Change(agent, None) for agent in offline])

    # -- following the database --

    async def refresh(self) -> None:
        """Load what has changed. The query starts after the call; concurrent calls share one."""
        self._refreshes_requested += 1
        wanted = self._refreshes_requested
        async with self._refreshing:
            if self._refreshes_done >= wanted:
                return
            requested = self._refreshes_requested
            async with self._database.transaction(isolation="repeatable_read", readonly=True) as connection:
                found = await agents.list_changes(connection, self._horizon)
            self._horizon = found.horizon
            for row in found.nodes:
                self.table.put_node(AgentNode(*row))
            changes = []
            for agent in map(self._intake.agent_of, found.agents):
                before = self.table.agent(agent.address)
                if agent != before:
                    self.table.put(agent)
                    changes.append(Change(before, agent))
            self._refreshes_done = requested
        self._notify_listeners(changes)

    def _notify_listeners(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        for listener in tuple(self._listeners):
            try:
                listener(changes)
            except Exception as error:
                # The other listeners are called all the same.
                self._report("A listener failed to handle a change of the routing table.", error)

    async def _follow(self) -> None:
        await self._notified.wait()
        self._notified.clear()
        try:
            await self.refresh()
        except BaseException:
            self._notified.set()
            raise

    # -- writing behind --

    async def _write_behind(self) -> None:
        await self._to_write.wait()
        await asyncio.sleep(WRITE_BEHIND_DELAY)
        self._to_write.clear()
        await self._write_pending()

    async def _write_pending(self) -> None:
        pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            await self.update(list(pending.values()))
        except ConnectionLost:
            self._pending = {**pending, **self._pending}
            self._to_write.set()
            raise


def _merge(
    before: StatusUpdate | AgentHeartbeat | None, update: StatusUpdate | AgentHeartbeat
) -> StatusUpdate | AgentHeartbeat:
    """A heartbeat does not contain the task of a busy agent, so the task of the update before it is kept."""
    if (
        isinstance(before, StatusUpdate)
        and isinstance(update, AgentHeartbeat)
        and before.status is update.status is AgentStatus.BUSY
    ):
        return StatusUpdate(update.address, update.status, before.current_task, update.sent_at)
    return update
