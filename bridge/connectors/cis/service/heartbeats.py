"""Sends this node's heartbeats, one per interval for all its agents, and receives those of other nodes.

Received heartbeats are written in batches, only the newest of each node. All processes of a node receive;
only the leader sends.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import AgentHeartbeat, HeartbeatRecorded, NodeHeartbeat
from bridge.connectors.cis import heartbeats
from bridge.connectors.cis.event_record import EventRecord, verdict_of
from bridge.connectors.cis.examination import UNKNOWN_PEER
from bridge.connectors.cis.heartbeats import edu_content, read_edu
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.protocol.rooms import room_id
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from federation.matrix.errors import MatrixError
from federation.transactions.edu_dispatcher import EduUpdate, ReceivedCustomEdu
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

if TYPE_CHECKING:
    from bridge.connectors.cis.http.messenger import PublishedMessenger


SHORTEST_INTERVAL: Final = 1.0
"""The least time in seconds between two heartbeats of this node."""
MAX_PENDING: Final = 50_000
"""The number of heartbeats of single agents that can be queued for writing."""


class HeartbeatSender:
    """Sends this node's heartbeats. It runs between `start` and `close`, in one process of a node."""

    def __init__(
        self,
        backend: MatrixBackend,
        routes: RoutingTable,
        settings: CisSettings,
        observer: CisObserver,
        *,
        lists_all: Callable[[], bool],
        published: "PublishedMessenger",
        now_ms: Callable[[], int],
    ) -> None:
        """`lists_all` returns whether every peer may receive the status of every agent."""
        self._backend = backend
        self._routes = routes
        self._settings = settings
        self._observer = observer
        self._lists_all = lists_all
        self._published = published
        self._now_ms = now_ms
        self._wanted = asyncio.Event()
        self._background = BackgroundTasks()

    def start(self) -> None:
        self._background.supervise("heartbeat in rooms", partial(self._run, self._send, self._wanted))
        self._background.supervise(
            "heartbeat to published nodes", partial(self._run, self._published.send_heartbeats, asyncio.Event())
        )

    async def close(self) -> None:
        await self._background.close()

    def send_soon(self) -> None:
        """Send the next heartbeat early: a node that has just joined does not know the status of the agents
        yet."""
        self._wanted.set()

    async def _run(self, send: Callable[[], Awaitable[None]], wanted: asyncio.Event) -> None:
        shortest = min(SHORTEST_INTERVAL, self._settings.heartbeat_ms / 1000)
        while True:
            try:
                await send()
            except (MatrixError, ConnectionLost):
                pass  # the next heartbeat replaces this one
            except Exception as error:
                self._observer.report_problem("Failed to send the heartbeat of this node.", error)
            await asyncio.sleep(shortest)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_ms / 1000 - shortest):
                    await wanted.wait()
            wanted.clear()

    async def _send(self) -> None:
        if not self._settings.federate or not self._settings.has_rooms:
            return
        statuses = None
        if self._lists_all():
            agents = self._routes.table.agents_of(self._settings.node_id)
            statuses = {agent_id: agent.status for agent_id, agent in agents.items() if agent.is_online}
        heartbeat = NodeHeartbeat(self._settings.node_id, self._now_ms(), statuses)
        broadcast_room = room_id(self._settings.broadcast_room)
        await self._backend.send_edu(broadcast_room, heartbeats.TYPE, edu_content(heartbeat))


class HeartbeatReceiver:
    """Receives the heartbeats of other nodes, between `start` and `close`. `on_unknown` is called with a node
    and the ids of agents in its heartbeat that are not known here; `on_returned` with the heartbeat of a node
    that was silent or is new."""

    def __init__(
        self,
        backend: MatrixBackend,
        routes: RoutingTable,
        settings: CisSettings,
        observer: CisObserver,
        *,
        on_unknown: Callable[[str, tuple[str, ...]], None],
        on_returned: Callable[[NodeHeartbeat], None],
    ) -> None:
        self._backend = backend
        self._routes = routes
        self._settings = settings
        self._observer = observer
        self._on_unknown = on_unknown
        self._on_returned = on_returned
        self._nodes: dict[str, NodeHeartbeat] = {}
        self._agents: dict[AgentAddress, AgentHeartbeat] = {}
        self._received = asyncio.Event()
        self._background = BackgroundTasks()
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        if not self._settings.has_rooms:
            return  # EDUs only arrive from servers that share rooms with this one
        self._unsubscribe = self._backend.listen(heartbeats.TYPE, self._receive)
        self._background.supervise("heartbeats of other nodes", self._run)

    async def close(self) -> None:
        self._unsubscribe()
        await self._background.close()

    def _receive(self, edu: EduUpdate) -> None:
        if not isinstance(edu, ReceivedCustomEdu):
            return
        match self._read(edu):
            case NodeHeartbeat() as heartbeat:
                pending = self._nodes.get(edu.origin)
                if pending is None or pending.sent_at <= heartbeat.sent_at:
                    self._nodes[edu.origin] = heartbeat
            case AgentHeartbeat() as heartbeat:
                if len(self._agents) < MAX_PENDING or heartbeat.address in self._agents:
                    self._agents[heartbeat.address] = heartbeat
            case refusal:
                verdict, detail = verdict_of(refusal), str(refusal)
                self._observer.record(EventRecord(edu.origin, heartbeats.TYPE, verdict, detail=detail))
        self._received.set()

    def _read(self, edu: ReceivedCustomEdu) -> NodeHeartbeat | AgentHeartbeat | InvalidPayload | Forbidden:
        access = self._settings.access(edu.origin)
        if access is None or not access.is_homeserver:
            return UNKNOWN_PEER
        return read_edu(edu.edu.content, edu.origin)

    async def _run(self) -> None:
        while True:
            await self._received.wait()
            self._received.clear()
            nodes, self._nodes = self._nodes, {}
            agents, self._agents = self._agents, {}
            try:
                await self._write(list(nodes.values()), list(agents.values()))
            except ConnectionLost:
                pass  # newer heartbeats will arrive before the database is available again
            except Exception as error:
                self._observer.report_problem("Failed to write the heartbeats of other nodes.", error)

    async def _write(self, nodes: list[NodeHeartbeat], agents: list[AgentHeartbeat]) -> None:
        # A node may no longer be trusted since its heartbeat was received.
        nodes = [one for one in nodes if self._settings.access(one.node_id) is not None]
        agents = [one for one in agents if self._settings.access(one.address.node_id) is not None]
        returned = [one for one in nodes if self._was_silent(one.node_id)]
        verdicts = await self._routes.update([*nodes, *agents])
        for heartbeat, verdict in zip(nodes, verdicts, strict=False):
            if isinstance(verdict, HeartbeatRecorded) and verdict.unknown:
                self._on_unknown(heartbeat.node_id, verdict.unknown)
        for heartbeat in returned:
            self._on_returned(heartbeat)

    def _was_silent(self, node_id: str) -> bool:
        node = self._routes.table.node(node_id)
        return node is None or node.last_heartbeat is None or node.silent_since is not None
