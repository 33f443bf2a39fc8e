"""Applies a change of trust: when a node becomes a trusted peer, and when it no longer is one.

Every process of a node does this; it does no harm if several processes do the same step. Nothing is exchanged
with a node that is not trusted: its agents are offline, the tasks given to them are answered with
`NODE_UNREACHABLE`, and the tasks that it requested are cancelled. When a node is trusted again, its agents
are loaded from its rooms, in which this node still is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bridge.agents.routing_table import RoutingTable
from bridge.connectors.cis.http.messenger import PublishedMessenger
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.service.discovery import AgentDiscovery
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from storage.agents.tasks import list_live_of_requester
from storage.connect import ConnectionLost
from storage.database import Database

BATCH_SIZE: Final = 200
"""The number of tasks that are read at once."""
RETRY: Final = 1.0
"""Seconds between retries while Postgres is unavailable."""


class PeerTrust:
    """`update_rooms` updates which servers may be in this node's rooms. `use_task_service` must be called
    first."""

    def __init__(
        self,
        database: Database,
        routes: RoutingTable,
        settings: CisSettings,
        discovery: AgentDiscovery,
        published: PublishedMessenger,
        outbox: PublishedOutbox,
        observer: CisObserver,
        *,
        update_rooms: Callable[[str], Awaitable[None]],
    ) -> None:
        self._database = database
        self._routes = routes
        self._settings = settings
        self._discovery = discovery
        self._published = published
        self._outbox = outbox
        self._observer = observer
        self._update_rooms = update_rooms
        # Changes are applied one at a time, so that the newest is written last.
        self._lock = asyncio.Lock()
        self._tasks: TaskService

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks

    async def start(self) -> None:
        """Apply the changes made while no process was running. A node that is trusted in the database but no
        longer configured loses its trust."""
        trusted_before = [node.node_id for node in self._routes.table.nodes() if node.trusted]
        known = {*self._settings.peers, *trusted_before} - {self._settings.node_id}
        async with self._lock:
            for node_id in sorted(known):
                await self._write(node_id)
                if self._settings.access(node_id) is None:
                    await self._stop_work_for(node_id)

    async def peer_changed(self, node_id: str) -> None:
        """The peer was added, removed or changed."""
        self._outbox.peer_changed(node_id)
        async with self._lock:
            while True:
                try:
                    await self._apply(node_id)
                    return
                except ConnectionLost as error:
                    problem = f"Cannot apply the change of the peer {node_id} yet: Postgres is unavailable."
                    self._observer.report_problem(problem, error)
                    await asyncio.sleep(RETRY)

    async def _apply(self, node_id: str) -> None:
        node = self._routes.table.node(node_id)
        was_trusted = node is not None and node.trusted
        await self._write(node_id)
        # Read after writing, because the peer may have changed again meanwhile.
        access = self._settings.access(node_id)
        if access is None:
            self._published.peer_distrusted(node_id)
            await self._stop_work_for(node_id)
        elif access.is_homeserver and not was_trusted:
            await self._discovery.discover(access.peer, as_of=self._after_last_update(access))
        await self._update_rooms(node_id)

    async def _write(self, node_id: str) -> None:
        known, access = self._settings.peers.get(node_id), self._settings.access(node_id)
        url = None if known is None else known.url
        await self._routes.set_node(node_id, url, trusted=access is not None)

    def _after_last_update(self, access: PeerAccess) -> int | None:
        """Return a time, by the node's own clock, after all updates of its agents that were received while it
        was trusted: agents that are in its rooms are then online again. None for a new node."""
        node_id = access.peer.node_id
        node, agents = self._routes.table.node(node_id), self._routes.table.agents_of(node_id)
        if not agents:
            return None
        sent_at = max(agent.sent_at for agent in agents.values())
        return max(sent_at, (node and node.heartbeat_sent_at) or 0) + 1

    async def _stop_work_for(self, node_id: str) -> None:
        after = 0
        reason = f"This node no longer exchanges agents with {node_id}."
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await list_live_of_requester(connection, node_id, after, BATCH_SIZE)
            for row in rows:
                # Tasks of other protocols from that server are not affected.
                if row.origin == NAME:
                    key = TaskKey(row.requester_node, row.request_id)
                    await self._tasks.cancel(key, str(self._settings.node_address), reason)
            if not rows:
                return
            after = rows[-1].id
