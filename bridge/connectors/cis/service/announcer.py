"""Announces the agents of this node to other nodes: registrations, unregistrations and status updates.

The announcer follows the changes of the routing table. What is missing after a crash or a failure is found by
comparing the table with the rooms. Without rooms, a new leader sends all announcements to published nodes
again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing_table import Change, RoutingTable
from bridge.agents.updates import SHUTDOWN
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.events import Registered, Unregistered
from bridge.connectors.cis.protocol.rooms import AgentRoom, room_id
from bridge.connectors.cis.registrations import Announcements, registered, status_update
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import NotSent, RoomSender
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GONE, PRESENCE, GhostNames
from bridge.tasks.deadlines import Deadlines
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

if TYPE_CHECKING:
    from bridge.connectors.cis.http.messenger import PublishedMessenger


BATCH_SIZE: Final = 50
"""Agents that are announced concurrently: events that are queued for the same room share a commit."""
RETRY_MS: Final = 5_000
MAX_CACHED: Final = 100_000
REANNOUNCE_INTERVAL_MS: Final = 60_000
"""The least time between two repeated announcements of an agent that peers believe to be offline."""

NamespacesOf = Callable[[Agent], Collection[str]]
"""Returns the namespaces of an agent of this node."""


class AgentAnnouncer:
    """Runs between `start` and `close`, in one process of a node."""

    def __init__(
        self,
        backend: MatrixBackend,
        routes: RoutingTable,
        settings: CisSettings,
        room_sender: RoomSender,
        observer: CisObserver,
        *,
        names: GhostNames,
        namespaces_of: NamespacesOf,
        published: "PublishedMessenger",
        now_ms: Callable[[], int],
    ) -> None:
        self._backend = backend
        self._routes = routes
        self._settings = settings
        self._room_sender = room_sender
        self._observer = observer
        self._names = names
        self._namespaces_of = namespaces_of
        self._published = published
        self._now_ms = now_ms
        self._announcements = Announcements(settings.own_rooms())
        self._statuses: dict[AgentAddress, tuple[AgentStatus, str | None]] = {}
        """The last status that was sent for each agent."""
        self._paused_until: LRUCache[AgentAddress, int] = LRUCache(MAX_CACHED)
        self._reannounced_at: LRUCache[AgentAddress, int] = LRUCache(MAX_CACHED)
        self._due: dict[AgentAddress, None] = {}
        self._later: Deadlines[AgentAddress] = Deadlines()
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._is_announcing = False
        self._background = BackgroundTasks()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Read the rooms, and announce from now on what is missing in them."""
        self._unsubscribe = self._routes.subscribe(self._changed)
        local = self._routes.table.agents_of(self._settings.node_id)
        for room in self._settings.own_rooms():
            if self._settings.has_rooms:
                await self._read(room)
            else:
                self._assume_registered(room, local.values())
        for agent in local.values():
            if agent.is_online:
                # The heartbeat that follows reports the current status.
                self._statuses[agent.address] = agent.status, agent.current_task
        agent_ids = {*local, *self._announcements.agents()}
        self._wake(AgentAddress(agent_id, self._settings.node_id) for agent_id in agent_ids)
        self._background.supervise("announcements of agents", self._run)

    async def close(self) -> None:
        self._unsubscribe()
        await self._background.close()

    async def flush(self, within: float) -> None:
        """Return when all announcements that are due have been sent, or after `within` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._due or self._is_announcing:
                    self._idle.clear()
                    await self._idle.wait()

    async def announce_again(self, address: AgentAddress) -> None:
        """Another node believes that the agent is offline: "answers with a fresh `registered` if it
        lives"."""
        agent, now_ms = self._routes.agent(address), self._now_ms()
        reannounced_at = self._reannounced_at.get(address) or 0
        if agent is None or not agent.is_online or now_ms < reannounced_at + REANNOUNCE_INTERVAL_MS:
            return
        self._reannounced_at[address] = now_ms
        fresh = registered(agent._replace(sent_at=max(agent.sent_at, now_ms)))
        rooms = self._rooms(agent)
        for room in rooms:
            await self._set(room, fresh)
        await self._published.broadcast(fresh, rooms)

    def all_agents_public(self) -> bool:
        """Return whether every agent of this node is announced in the broadcast room."""
        agents = self._routes.table.agents_of(self._settings.node_id).values()
        to_all = (self._settings.broadcast_room,)
        return all(self._rooms(agent) == to_all for agent in agents if agent.is_online)

    # -- announcing --

    def _changed(self, changes: Sequence[Change]) -> None:
        agents = (change.after or change.before for change in changes)
        self._wake(agent.address for agent in agents if agent is not None)

    def _wake(self, addresses: Iterable[AgentAddress]) -> None:
        for address in addresses:
            if self._settings.is_own(address):
                self._due[address] = None
        self._woken.set()

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            for address in self._later.take_due(now_ms):
                self._due[address] = None
            due = list(self._due)[:BATCH_SIZE]
            for address in due:
                del self._due[address]
            if due:
                self._is_announcing = True
                await asyncio.gather(*map(self._try, due))
                self._is_announcing = False
                continue
            self._idle.set()
            deadline = self._later.next()
            wait = None if deadline is None else max(0, deadline - now_ms) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            self._woken.clear()

    async def _try(self, address: AgentAddress) -> None:
        try:
            is_done = await self._announce(address)
        except ConnectionLost:
            is_done = False  # the loss of the database is reported elsewhere
        except Exception as error:
            self._observer.report_problem(f"Failed to announce {address}.", error)
            is_done = False
        if not is_done:
            self._later.set(address, self._now_ms() + RETRY_MS)

    async def _announce(self, address: AgentAddress) -> bool:
        """Send all events that are missing for the agent. Return False if one could not be sent."""
        agent = self._routes.agent(address)
        if agent is None:
            agent = _removed_agent(address, self._now_ms())
        rooms = self._rooms(agent)
        missing = self._announcements.missing(agent, rooms)
        for room, event in missing:
            if not await self._set(room, event):
                return False
        if missing and isinstance(missing[-1][1], Registered) is agent.is_online:
            await self._published.broadcast(missing[-1][1], rooms)
        is_done = await self._send_status(agent, rooms)
        await self._set_presence(agent)
        return is_done

    async def _set(self, room: AgentRoom, event: Registered | Unregistered) -> bool:
        if self._settings.has_rooms and isinstance(
            await self._room_sender.set_state(event, room, event.agent_id), NotSent
        ):
            return False
        self._announcements.read(room, event)
        return True

    async def _send_status(self, agent: Agent, rooms: Collection[AgentRoom]) -> bool:
        address, now_ms = agent.address, self._now_ms()
        if not agent.is_online:
            self._statuses.pop(address, None)
            return True
        status = agent.status, agent.current_task
        if status == self._statuses.get(address, (AgentStatus.IDLE, None)):
            self._statuses[address] = status
            return True
        paused_until = self._paused_until.get(address)
        if paused_until is not None and now_ms < paused_until:
            self._later.set(address, paused_until)
            return True
        self._paused_until[address] = now_ms + self._settings.status_pause_ms
        event = status_update(agent)
        for room in rooms if self._settings.has_rooms else ():
            key = f"status {event.sent_at} {agent.status} {agent.current_task}"
            if isinstance(await self._room_sender.send(event, room, address, key), NotSent):
                return False
        self._statuses[address] = status
        await self._published.broadcast(event, rooms)
        return True

    async def _set_presence(self, agent: Agent) -> None:
        """Show the agent's status to people, and to other homeservers, which do not know agents."""
        user = self._names.ghost(agent.address)
        if isinstance(user, str):
            presence = PRESENCE[agent.status] if agent.is_online else GONE
            with contextlib.suppress(MatrixError):  # presence may be disabled
                await self._backend.set_presence(user, presence.state, status=presence.status)

    # -- the state of the rooms --

    def _assume_registered(self, room: AgentRoom, agents: Iterable[Agent]) -> None:
        """Assume that agents that are offline were announced as registered, so that `unregistered` is sent
        again."""
        for agent in agents:
            if not agent.is_online:
                self._announcements.read(room, registered(agent))

    async def _read(self, room: AgentRoom) -> None:
        for type_ in (Registered.TYPE, Unregistered.TYPE):
            for entry in await self._backend.state(room_id(room), type_):
                event = content.read(entry.type, dict(entry.content))
                if isinstance(event, Registered | Unregistered) and event.agent_id == entry.state_key:
                    self._announcements.read(room, event)

    def _rooms(self, agent: Agent) -> tuple[AgentRoom, ...]:
        return self._settings.announced_in(self._namespaces_of(agent))


def _removed_agent(address: AgentAddress, now_ms: int) -> Agent:
    """Return a stand-in for an agent that was removed from the routing table: it is offline."""
    return Agent(
        address.agent_id, address.node_id, "", "", (), AgentStatus.SHUTDOWN, None, 0, 0, None, now_ms, SHUTDOWN
    )
