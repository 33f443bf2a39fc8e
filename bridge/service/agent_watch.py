"""Notices which agents are no longer heard from, and has it announced.

"120 s without a heartbeat: unregistered with reason `timeout`, announced once". Who is lost is decided in one
statement of the database, so that of all processes one is given each agent. That it has still to be announced
is part of its row, so that the end of that process leaves it to another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bridge.agent import Agent
from bridge.service.routing_table import RoutingTable
from bridge.service.session import Report
from bridge.silence import Listening, cutoff, listening, next_look
from storage import agents
from storage.connecting import ConnectionLost
from storage.database import Database

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
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        # Before an agent of this node says anything: it lives with its node, and not by itself.
        self._routes.hear_itself()
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def look(self) -> int:
        """Once; gives the time of the next look."""
        now_ms = self._now_ms()
        async with self._database.transaction() as connection:
            known = await agents.fetch_listening(connection)
            heard = listening(None if known is None else Listening(*known), now_ms, self._timeout_ms)
            await agents.write_listening(connection, heard.since, heard.until)
            # This node hears itself, and its own agents with it. Of what they do that says nothing.
            await agents.insert_nodes(connection, [self._routes.node_id], now_ms)
            await agents.write_heartbeat(connection, self._routes.node_id, now_ms, None)
            before = cutoff(heard, now_ms, self._timeout_ms)
            lost = (
                []
                if before is None
                else await agents.lose_silent(connection, before, now_ms, self._routes.node_id)
            )
            forgotten = await agents.forget_agents(connection, now_ms - self._kept_ms, FORGOTTEN_AT_ONCE)
            longest = await agents.longest_silent(connection, self._routes.node_id)
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
                if not await agents.try_lock_announcing(connection):
                    return
                rows = await agents.list_untold(connection, TOLD_AT_ONCE)
                if not rows:
                    return
                await self._announce([self._routes.agent_of(row) for row in rows])
                await agents.mark_told(connection, rows)

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
