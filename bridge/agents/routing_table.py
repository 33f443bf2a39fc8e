"""The routing table as all processes of a node share it: in Postgres, and in the memory of each.

What is said of agents is decided on what the database has, under the lock of its rows, and written in the
transaction of whoever brings it. The memory follows the database and nothing else: after each commit of this
process, when another one notifies it, and every 30 seconds. Heartbeats that say
nothing new cost one row for each node, and nobody is told.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentNode, AgentStatus
from bridge.agents.news import Heartbeat, News, StatusSaid, Verdict
from bridge.agents.registrar import AgentIntake, Applied, IntakeLimits
from bridge.agents.routing import AgentRoutingTable, Route, Target
from bridge.observability.report import Report
from storage.agents import agents
from storage.agents.agents import AgentRow
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database

TOPIC: Final = "agents"
"""Of the notifications by which processes tell each other that the table has changed."""
PAUSE: Final = 0.1
"""Seconds for which words are gathered that may be written behind."""
MOST_SAID: Final = 50_000


@dataclass(frozen=True, slots=True)
class Change:
    """None before: it is new. None after: it is forgotten."""

    before: Agent | None
    after: Agent | None


Listener = Callable[[Sequence[Change]], None]


class RoutingTable:
    """`table` is what this process knows: to be read, never to be written to."""

    def __init__(
        self,
        node_id: str,
        database: Database,
        *,
        now_ms: Callable[[], int],
        report: Report = lambda sentence, error: None,
        limits: IntakeLimits | None = None,
    ) -> None:
        self.node_id = node_id
        self.table = AgentRoutingTable()
        self._database = database
        self._now_ms = now_ms
        self._report = report
        self._intake = AgentIntake(self.table, limits or IntakeLimits())
        self._listeners: list[Listener] = []
        self._horizon: int | None = None
        self._reading = asyncio.Lock()
        self._asked = 0
        self._read = 0
        self._woken = asyncio.Event()
        self._said: dict[AgentAddress, StatusSaid | Heartbeat] = {}
        self._to_write = asyncio.Event()
        self._background = BackgroundTasks()
        self._end_subscription: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Know all agents, and follow what becomes of them."""
        async with self._database.transaction() as connection:
            await agents.reset_change_numbers(connection)
        await self.refresh()
        self._end_subscription = self._database.session.subscribe(TOPIC, lambda _: self._woken.set())
        self._background.supervise("routing table", self._follow)
        self._background.supervise("statuses of agents", self._write_behind)

    async def close(self) -> None:
        self._end_subscription()
        await self._background.close()
        with contextlib.suppress(ConnectionLost):
            await self._write_said()

    # -- asking --

    def route(self, target: Target) -> Route:
        return self.table.route(target, self.node_id)

    def explain(self, target: Target) -> str:
        return self.table.explain(target, self.node_id, self._now_ms())

    def agent(self, address: AgentAddress) -> Agent | None:
        return self.table.agent(address)

    def agent_of(self, row: AgentRow) -> Agent:
        """What the database has of an agent."""
        return self._intake.agent_of(row)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of changes, whichever process made them; gives what ends it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    # -- what is said --

    async def apply(self, connection: Connection, news: Sequence[News]) -> Applied:
        """In the transaction of the caller, who calls `committed` after its end. Said a second time, it
        changes nothing."""
        return await self._intake.apply(connection, news, self._now_ms())

    async def committed(self, applied: Applied) -> None:
        """The transaction in which that was applied has been committed. On return it is known here."""
        for beat in applied.beats:
            self.table.heard(beat.node_id, self._now_ms(), beat.sent_at)
        if applied.has_changed:
            self._database.session.notify(TOPIC)
            await self.refresh()

    async def take(self, news: Sequence[News]) -> list[Verdict]:
        """Both, in a transaction of its own."""
        async with self._database.transaction() as connection:
            applied = await self.apply(connection, news)
        await self.committed(applied)
        return applied.verdicts

    def say(self, news: StatusSaid | Heartbeat) -> None:
        """To be written a moment later, the newest for each agent; a kill may lose it, and the next heartbeat
        says it again."""
        if len(self._said) < MOST_SAID or news.address in self._said:
            before = self._said.get(news.address)
            if before is None or before.sent_at <= news.sent_at:
                self._said[news.address] = _both(before, news)
                self._to_write.set()

    async def set_node(self, node_id: str, url: str | None, *, trusted: bool) -> None:
        """What the configuration says of a node, or an operator. Agents of one that is not trusted are
        gone."""
        async with self._database.transaction() as connection:
            await agents.write_node(connection, node_id, url, self._now_ms(), trusted=trusted)
            if not trusted:
                await agents.distrust_node(connection, node_id, self._now_ms())
        await self.changed()

    async def changed(self) -> None:
        """Something was written apart from here. On return it is known."""
        self._database.session.notify(TOPIC)
        await self.refresh()

    def hear_itself(self) -> None:
        """This node lives, and its agents with it."""
        self.table.heard(self.node_id, self._now_ms(), 0)

    def forget_gone(self, before_ms: int) -> None:
        """Of those that went before a time nothing more is kept in memory."""
        gone = [agent for agent in self.table.agents() if (agent.gone_at or before_ms) < before_ms]
        for agent in gone:
            self.table.forget(agent.address)
        self._tell_listeners([Change(agent, None) for agent in gone])

    # -- following --

    async def refresh(self) -> None:
        """Read what has been changed. It begins after the call, however many call at once."""
        self._asked += 1
        wanted = self._asked
        async with self._reading:
            if self._read >= wanted:
                return
            asked = self._asked
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
            self._read = asked
        self._tell_listeners(changes)

    def _tell_listeners(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        for listener in tuple(self._listeners):
            try:
                listener(changes)
            except Exception as error:
                # The others must hear of it all the same.
                self._report("A change of the routing table was not worked on.", error)

    async def _follow(self) -> None:
        await self._woken.wait()
        self._woken.clear()
        try:
            await self.refresh()
        except BaseException:
            self._woken.set()
            raise

    # -- writing behind --

    async def _write_behind(self) -> None:
        await self._to_write.wait()
        await asyncio.sleep(PAUSE)
        self._to_write.clear()
        await self._write_said()

    async def _write_said(self) -> None:
        said, self._said = self._said, {}
        if not said:
            return
        try:
            await self.take(list(said.values()))
        except ConnectionLost:
            self._said = {**said, **self._said}
            self._to_write.set()
            raise


def _both(before: StatusSaid | Heartbeat | None, news: StatusSaid | Heartbeat) -> StatusSaid | Heartbeat:
    """A heartbeat does not say with what an agent is busy; the word before it did."""
    if (
        isinstance(before, StatusSaid)
        and isinstance(news, Heartbeat)
        and before.status is news.status is AgentStatus.BUSY
    ):
        return StatusSaid(news.address, news.status, before.current_task, news.sent_at)
    return news
