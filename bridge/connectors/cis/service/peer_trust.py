"""What follows when a node becomes a peer, or is trusted again, and when it is no longer: in every process,
each step of it as good when another process does it too.

Who is not trusted is not spoken with: its agents are gone, tasks that they have are answered
`NODE_UNREACHABLE`, and what it has asked for is not worked on any more. Who is trusted again is known again
from its rooms, in which this node still is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bridge.agents.routing_table import RoutingTable
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.http.publishing import Publishing
from bridge.connectors.cis.service.discovery import Learning
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from storage.agents.tasks import list_live_of_requester
from storage.connect import ConnectionLost
from storage.database import Database

AT_ONCE: Final = 200
"""Tasks that are looked up together."""
RETRY: Final = 1.0
"""Seconds after which it is tried again what Postgres did not take."""


class Trusting:
    """`rooms_follow` keeps the rooms of this node closed to whom they are to be closed. `use_task_service`
    comes first."""

    def __init__(
        self,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        learning: Learning,
        publishing: Publishing,
        outbox: PublishedOutbox,
        observer: CisObserver,
        *,
        rooms_follow: Callable[[str], Awaitable[None]],
    ) -> None:
        self._database = database
        self._routes = routes
        self._settings = settings
        self._learning = learning
        self._publishing = publishing
        self._outbox = outbox
        self._observer = observer
        self._rooms_follow = rooms_follow
        # What is newest must be written last.
        self._turn = asyncio.Lock()
        self._tasks: TaskService

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks

    async def begin(self) -> None:
        """What has changed while no process was there. A node that was a peer once, and is in no book any
        more, is trusted no longer."""
        once = [node.node_id for node in self._routes.table.nodes() if node.trusted]
        known = {*self._settings.peers, *once} - {self._settings.node_id}
        async with self._turn:
            for node_id in sorted(known):
                await self._write(node_id)
                if self._settings.access(node_id) is None:
                    await self._stop_work_for(node_id)

    async def follow(self, node_id: str) -> None:
        """It has come, or gone, or is another one than it was."""
        self._outbox.follow(node_id)
        async with self._turn:
            while True:
                try:
                    await self._follow(node_id)
                    return
                except ConnectionLost as error:
                    problem = f"What follows from a change of {node_id} waits, because Postgres is away."
                    self._observer.problem(problem, error)
                    await asyncio.sleep(RETRY)

    async def _follow(self, node_id: str) -> None:
        node = self._routes.table.node(node_id)
        was_trusted = node is not None and node.trusted
        await self._write(node_id)
        # What holds now: it may have changed again while that was written.
        access = self._settings.access(node_id)
        if access is None:
            self._publishing.distrusted(node_id)
            await self._stop_work_for(node_id)
        elif access.is_homeserver and not was_trusted:
            await self._learning.learn(access.peer, as_of=self._last_word(access))
        await self._rooms_follow(node_id)

    async def _write(self, node_id: str) -> None:
        known, access = self._settings.peers.get(node_id), self._settings.access(node_id)
        url = None if known is None else known.url
        await self._routes.set_node(node_id, url, trusted=access is not None)

    def _last_word(self, access: PeerAccess) -> int | None:
        """By the node's own clock, a time after all that was said of its agents before it was not trusted:
        who is in its rooms is there again. None of a node that is new."""
        node_id = access.peer.node_id
        node, agents = self._routes.table.node(node_id), self._routes.table.agents_of(node_id)
        if not agents:
            return None
        sent_at = max(agent.sent_at for agent in agents.values())
        return max(sent_at, (node and node.heartbeat_sent_at) or 0) + 1

    async def _stop_work_for(self, node_id: str) -> None:
        after = 0
        reason = f"This node does not exchange agents with {node_id} any more."
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await list_live_of_requester(connection, node_id, after, AT_ONCE)
            for row in rows:
                # Others than nodes may ask from there.
                if row.origin == NAME:
                    key = TaskKey(row.requester_node, row.request_id)
                    await self._tasks.cancel(key, str(self._settings.node_address), reason)
            if not rows:
                return
            after = rows[-1].id
