"""Notices which agents are no longer heard from, and has it announced.

"120 s without a heartbeat: unregistered with reason `timeout`, announced once". Who is lost is decided in one
statement of the database, so that of all processes one is given each agent. That it has still to be announced
is part of its row, so that the end of that process leaves it to another.

After how much silence an agent counts as gone.

"after 120 s the agent is offline". But silence that nobody listened to is no reproach: a node that was away
itself gives everybody the whole time again, from its return on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.observability.report import Report
from storage.agents import agents
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database

MISSED = 4
"""Heartbeats that fit into the time after which an agent is gone: 120 s are four periods of 30 s. (The
specification's appendix says two, against its own numbers.)"""


@dataclass(frozen=True, slots=True)
class Listening:
    """From when to when some process of this node has been there to hear heartbeats, without a break in which
    more than one could have been missed."""

    since: int
    until: int


def listening(before: Listening | None, now_ms: int, timeout_ms: int) -> Listening:
    """A process listens now."""
    if before is None or not before.until - timeout_ms <= now_ms <= before.until + timeout_ms // MISSED:
        return Listening(now_ms, now_ms)  # there was a break, or the clock was put back
    return Listening(before.since, max(before.until, now_ms))


def cutoff(heard: Listening, now_ms: int, timeout_ms: int) -> int | None:
    """Whoever was heard from last before this is gone. None: nobody can be said to be silent yet."""
    return now_ms - timeout_ms if now_ms - heard.since >= timeout_ms else None


def next_look(heard: Listening, longest_silent: int | None, now_ms: int, timeout_ms: int) -> int:
    """When somebody may be gone next. It is often enough to go on listening without a break."""
    at_the_latest = now_ms + timeout_ms // (2 * MISSED)
    if longest_silent is None:
        return at_the_latest
    gone_at = max(longest_silent, heard.since) + timeout_ms + 1
    return min(max(gone_at, now_ms), at_the_latest)


TIMEOUT_MS: Final = 120_000
KEPT_MS: Final = 24 * 3_600_000
"""For which an agent that is gone is remembered: what was said before must have stopped travelling."""
TOLD_AT_ONCE: Final = 1_000
FORGOTTEN_AT_ONCE: Final = 10_000
RETRY_MS: Final = 5_000
SHORTEST: Final = 0.05
"""Seconds between two looks."""

Announce = Callable[[Sequence[Agent]], Awaitable[None]]


async def nobody_to_tell(lost: Sequence[Agent]) -> None:
    """For who announces nothing."""


class AgentWatch:
    """`announce` is given agents that are lost. It may be given one again if it fails or the process is
    killed: by its address and `gone_at` it can tell."""

    def __init__(
        self,
        routes: RoutingTable,
        database: Database,
        *,
        now_ms: Callable[[], int],
        timeout_ms: int = TIMEOUT_MS,
        kept_ms: int = KEPT_MS,
        retry_ms: int = RETRY_MS,
        announce: Announce = nobody_to_tell,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._routes = routes
        self._database = database
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms
        self._kept_ms = kept_ms
        self._retry_ms = retry_ms
        self._announce = announce
        self._report = report
        self._background = BackgroundTasks()

    async def start(self) -> None:
        # Before an agent of this node says anything: it lives with its node, and not by itself.
        self._routes.hear_itself()
        self._background.supervise("watch on agents", self._run)

    async def close(self) -> None:
        await self._background.close()

    async def look(self) -> int:
        """Once; gives the time of the next look."""
        now_ms = self._now_ms()
        async with self._database.transaction() as connection:
            known = await agents.fetch_monitoring_period(connection)
            heard = listening(None if known is None else Listening(*known), now_ms, self._timeout_ms)
            await agents.write_monitoring_period(connection, heard.since, heard.until)
            # This node hears itself, and its own agents with it. Of what they do that says nothing.
            await agents.insert_nodes(connection, [self._routes.node_id], now_ms)
            await agents.write_heartbeat(connection, self._routes.node_id, now_ms, None)
            before = cutoff(heard, now_ms, self._timeout_ms)
            lost = (
                []
                if before is None
                else await agents.expire_silent(connection, before, now_ms, self._routes.node_id)
            )
            forgotten = await agents.prune_agents(connection, now_ms - self._kept_ms, FORGOTTEN_AT_ONCE)
            longest = await agents.fetch_oldest_heartbeat(connection, self._routes.node_id)
        self._routes.hear_itself()
        if lost:
            await self._routes.changed()
        if forgotten:
            self._routes.forget_gone(now_ms - self._kept_ms)
        await self._tell()
        return next_look(heard, longest, now_ms, self._timeout_ms)

    async def _tell(self) -> None:
        """One process at a time; agents may come back while it does, for their rows are not locked by it."""
        while True:
            async with self._database.transaction() as connection:
                if not await agents.try_lock_announcements(connection):
                    return
                rows = await agents.list_unannounced(connection, TOLD_AT_ONCE)
                if not rows:
                    return
                await self._announce([self._routes.agent_of(row) for row in rows])
                await agents.mark_announced(connection, rows)

    async def _run(self) -> None:
        while True:
            try:
                at = await self.look()
            except ConnectionLost:
                at = self._now_ms() + self._retry_ms
            except Exception as error:
                self._report("That agents are no longer heard from could not be worked on.", error)
                at = self._now_ms() + self._retry_ms
            await asyncio.sleep(max(SHORTEST, (at - self._now_ms()) / 1000))
