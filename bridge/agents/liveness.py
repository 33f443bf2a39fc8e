"""Detects agents that stopped sending heartbeats, marks them offline and announces it.

"120 s without a heartbeat: unregistered with reason `timeout`, announced once". One database statement finds
the lost agents, so that exactly one process gets each of them. That an agent has still to be announced is
stored in its row, so that another process announces it if this one ends.

"after 120 s the agent is offline". The timeout counts only while this node could receive heartbeats: after an
outage of the node itself every agent has the full timeout again.
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

HEARTBEATS_PER_TIMEOUT = 4
"""Heartbeats per timeout: 120 s are four periods of 30 s. (The specification's appendix says two, which
contradicts its own numbers.)"""


@dataclass(frozen=True, slots=True)
class ListeningPeriod:
    """The period in which some process of this node could receive heartbeats, without a gap in which an agent
    could have missed more than one."""

    since: int
    until: int


def extend_listening(before: ListeningPeriod | None, now_ms: int, timeout_ms: int) -> ListeningPeriod:
    """The period extended to now, or a new period after a gap."""
    if before is None or not before.until - timeout_ms <= now_ms <= before.until + timeout_ms // HEARTBEATS_PER_TIMEOUT:
        return ListeningPeriod(now_ms, now_ms)  # there was a gap, or the clock was set back
    return ListeningPeriod(before.since, max(before.until, now_ms))


def cutoff(period: ListeningPeriod, now_ms: int, timeout_ms: int) -> int | None:
    """The time before which a last heartbeat means that the agent is lost. None while the period is shorter
    than the timeout."""
    return now_ms - timeout_ms if now_ms - period.since >= timeout_ms else None


def next_check(period: ListeningPeriod, oldest_heartbeat: int | None, now_ms: int, timeout_ms: int) -> int:
    """When the next agent may be lost. The interval is short enough to extend the period without a gap."""
    at_the_latest = now_ms + timeout_ms // (2 * HEARTBEATS_PER_TIMEOUT)
    if oldest_heartbeat is None:
        return at_the_latest
    gone_at = max(oldest_heartbeat, period.since) + timeout_ms + 1
    return min(max(gone_at, now_ms), at_the_latest)


TIMEOUT_MS: Final = 120_000
RETENTION_MS: Final = 24 * 3_600_000
"""Time for which an agent that is offline is kept. It is longer than an outdated update can be in transit."""
ANNOUNCE_BATCH: Final = 1_000
PRUNE_LIMIT: Final = 10_000
RETRY_MS: Final = 5_000
MIN_CHECK_INTERVAL: Final = 0.05
"""Seconds between two checks, at least."""

Announce = Callable[[Sequence[Agent]], Awaitable[None]]


async def no_announcement(lost: Sequence[Agent]) -> None:
    """The default: announce nothing."""


class LivenessMonitor:
    """Runs the checks. `announce` is called with lost agents. It may get an agent again after an error or a
    kill, with the same address and `gone_at`."""

    def __init__(
        self,
        routes: RoutingTable,
        database: Database,
        *,
        now_ms: Callable[[], int],
        timeout_ms: int = TIMEOUT_MS,
        retention_ms: int = RETENTION_MS,
        retry_ms: int = RETRY_MS,
        announce: Announce = no_announcement,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._routes = routes
        self._database = database
        self._now_ms = now_ms
        self._timeout_ms = timeout_ms
        self._retention_ms = retention_ms
        self._retry_ms = retry_ms
        self._announce = announce
        self._report = report
        self._background = BackgroundTasks()

    async def start(self) -> None:
        # Agents of this node are online as long as the node is, and send no heartbeats of their own.
        self._routes.record_own_heartbeat()
        self._background.supervise("liveness of agents", self._run)

    async def close(self) -> None:
        await self._background.close()

    async def check(self) -> int:
        """Check once, and return the time of the next check."""
        now_ms = self._now_ms()
        async with self._database.transaction() as connection:
            known = await agents.fetch_monitoring_period(connection)
            period = extend_listening(None if known is None else ListeningPeriod(*known), now_ms, self._timeout_ms)
            await agents.write_monitoring_period(connection, period.since, period.until)
            # Record a heartbeat of this node, which keeps its own agents online whatever they do.
            await agents.insert_nodes(connection, [self._routes.node_id], now_ms)
            await agents.write_heartbeat(connection, self._routes.node_id, now_ms, None)
            lost_before = cutoff(period, now_ms, self._timeout_ms)
            lost = (
                []
                if lost_before is None
                else await agents.expire_silent(connection, lost_before, now_ms, self._routes.node_id)
            )
            pruned = await agents.prune_agents(connection, now_ms - self._retention_ms, PRUNE_LIMIT)
            oldest_heartbeat = await agents.fetch_oldest_heartbeat(connection, self._routes.node_id)
        self._routes.record_own_heartbeat()
        if lost:
            await self._routes.notify_changed()
        if pruned:
            self._routes.prune_offline(now_ms - self._retention_ms)
        await self._announce_lost()
        return next_check(period, oldest_heartbeat, now_ms, self._timeout_ms)

    async def _announce_lost(self) -> None:
        """Announce lost agents, one process at a time. The rows of the agents are not locked, so that they
        can reconnect meanwhile."""
        while True:
            async with self._database.transaction() as connection:
                if not await agents.try_lock_announcements(connection):
                    return
                rows = await agents.list_unannounced(connection, ANNOUNCE_BATCH)
                if not rows:
                    return
                await self._announce([self._routes.agent_of(row) for row in rows])
                await agents.mark_announced(connection, rows)

    async def _run(self) -> None:
        while True:
            try:
                at = await self.check()
            except ConnectionLost:
                at = self._now_ms() + self._retry_ms
            except Exception as error:
                self._report("The check for agents without heartbeats failed; it is retried.", error)
                at = self._now_ms() + self._retry_ms
            await asyncio.sleep(max(MIN_CHECK_INTERVAL, (at - self._now_ms()) / 1000))
