"""Heartbeats: ours, one for each interval and however many agents there are; and those of others.

What is heard is written a moment later, the newest of each node. All processes of a node hear; one speaks.
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
from bridge.connectors.cis.acts import Act, verdict_of
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
    from bridge.connectors.cis.http.publishing import Publishing


SHORTEST: Final = 1.0
"""Seconds between two of ours, whoever asks for one."""
MOST_HEARD: Final = 50_000
"""Of single agents, that wait to be written."""


class OwnBeats:
    """It runs between `start` and `close`, in one process of a node."""

    def __init__(
        self,
        side: MatrixBackend,
        routes: RoutingTable,
        settings: CisSettings,
        observer: CisObserver,
        *,
        lists_all: Callable[[], bool],
        published: "Publishing",
        now_ms: Callable[[], int],
    ) -> None:
        """`lists_all`: whether everybody may know of every agent."""
        self._side = side
        self._routes = routes
        self._settings = settings
        self._observer = observer
        self._lists_all = lists_all
        self._published = published
        self._now_ms = now_ms
        self._wanted = asyncio.Event()
        self._background = BackgroundTasks()

    def start(self) -> None:
        self._background.supervise("heartbeat in rooms", partial(self._run, self._beat, self._wanted))
        self._background.supervise(
            "heartbeat to published nodes", partial(self._run, self._published.beat, asyncio.Event())
        )

    async def close(self) -> None:
        await self._background.close()

    def soon(self) -> None:
        """Somebody has come who does not know yet what our agents do."""
        self._wanted.set()

    async def _run(self, beat: Callable[[], Awaitable[None]], wanted: asyncio.Event) -> None:
        shortest = min(SHORTEST, self._settings.heartbeat_ms / 1000)
        while True:
            try:
                await beat()
            except (MatrixError, ConnectionLost):
                pass  # the next one is as good
            except Exception as error:
                self._observer.problem("The heartbeat of this node could not be sent.", error)
            await asyncio.sleep(shortest)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.heartbeat_ms / 1000 - shortest):
                    await wanted.wait()
            wanted.clear()

    async def _beat(self) -> None:
        if not self._settings.federate or not self._settings.has_rooms:
            return
        statuses = None
        if self._lists_all():
            agents = self._routes.table.agents_of(self._settings.node_id)
            statuses = {agent_id: agent.status for agent_id, agent in agents.items() if agent.is_online}
        beat = NodeHeartbeat(self._settings.node_id, self._now_ms(), statuses)
        where = room_id(self._settings.broadcast_room)
        await self._side.send_edu(where, heartbeats.TYPE, edu_content(beat))


class HeardBeats:
    """`unknown` is called with a node whose heartbeat speaks for agents that are not known here, with their
    ids; `met` with a node that was silent, or new; the time is that of its heartbeat. It runs between `start`
    and `close`."""

    def __init__(
        self,
        side: MatrixBackend,
        routes: RoutingTable,
        settings: CisSettings,
        observer: CisObserver,
        *,
        unknown: Callable[[str, tuple[str, ...]], None],
        met: Callable[[NodeHeartbeat], None],
    ) -> None:
        self._side = side
        self._routes = routes
        self._settings = settings
        self._observer = observer
        self._unknown = unknown
        self._met = met
        self._nodes: dict[str, NodeHeartbeat] = {}
        self._agents: dict[AgentAddress, AgentHeartbeat] = {}
        self._something = asyncio.Event()
        self._background = BackgroundTasks()
        self._end: Callable[[], None] = lambda: None

    def start(self) -> None:
        if not self._settings.has_rooms:
            return  # it is in rooms that they are heard
        self._end = self._side.listen(heartbeats.TYPE, self._hear)
        self._background.supervise("heartbeats of other nodes", self._run)

    async def close(self) -> None:
        self._end()
        await self._background.close()

    def _hear(self, said: EduUpdate) -> None:
        if not isinstance(said, ReceivedCustomEdu):
            return
        match self._read(said):
            case NodeHeartbeat() as beat:
                known = self._nodes.get(said.origin)
                if known is None or known.sent_at <= beat.sent_at:
                    self._nodes[said.origin] = beat
            case AgentHeartbeat() as beat:
                if len(self._agents) < MOST_HEARD or beat.address in self._agents:
                    self._agents[beat.address] = beat
            case refusal:
                detail = str(refusal)
                self._observer.acted(Act(said.origin, heartbeats.TYPE, verdict_of(refusal), detail=detail))
        self._something.set()

    def _read(self, said: ReceivedCustomEdu) -> NodeHeartbeat | AgentHeartbeat | InvalidPayload | Forbidden:
        access = self._settings.access(said.origin)
        if access is None or not access.is_homeserver:
            return UNKNOWN_PEER
        return read_edu(said.edu.content, said.origin)

    async def _run(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            nodes, self._nodes = self._nodes, {}
            agents, self._agents = self._agents, {}
            try:
                await self._write(list(nodes.values()), list(agents.values()))
            except ConnectionLost:
                pass  # by the time the database is back there are newer ones
            except Exception as error:
                self._observer.problem("Heartbeats of other nodes could not be written.", error)

    async def _write(self, nodes: list[NodeHeartbeat], agents: list[AgentHeartbeat]) -> None:
        # It may be trusted no more since it was heard.
        nodes = [beat for beat in nodes if self._settings.access(beat.node_id) is not None]
        agents = [beat for beat in agents if self._settings.access(beat.address.node_id) is not None]
        returned = [beat for beat in nodes if self._was_silent(beat.node_id)]
        verdicts = await self._routes.update([*nodes, *agents])
        for beat, verdict in zip(nodes, verdicts, strict=False):
            if isinstance(verdict, HeartbeatRecorded) and verdict.unknown:
                self._unknown(beat.node_id, verdict.unknown)
        for beat in returned:
            self._met(beat)

    def _was_silent(self, node_id: str) -> bool:
        node = self._routes.table.node(node_id)
        return node is None or node.last_heartbeat is None or node.silent_since is not None
