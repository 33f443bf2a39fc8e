"""Tells other nodes of the agents of this one: who has come, who has gone, and who does what.

Driven by the routing table, whoever writes there. What was missed, by a kill or because it could not be said,
is found by comparing the table with the rooms. Where there are none, published nodes are told all of it again
by whoever begins to tell.
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
from bridge.connectors.cis.service.sender import NotSaid, Speech
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GONE, PRESENCE, GhostNames
from bridge.peers.peer import Peer
from bridge.tasks.deadlines import Deadlines
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

if TYPE_CHECKING:
    from bridge.connectors.cis.http.publishing import Publishing


AT_ONCE: Final = 50
"""Events that wait for the same room share a commit."""
RETRY_MS: Final = 5_000
MOST_REMEMBERED: Final = 100_000
AGAIN_MS: Final = 60_000
"""An agent that others miss is told of anew no more often than this."""

NamespacesOf = Callable[[Agent], Collection[str]]
"""Of an agent of this node."""


class Announcing:
    """It runs between `start` and `close`, in one process of a node."""

    def __init__(
        self,
        side: MatrixBackend,
        routes: RoutingTable,
        settings: CisSettings,
        speech: Speech,
        observer: CisObserver,
        *,
        names: GhostNames,
        namespaces_of: NamespacesOf,
        published: "Publishing",
        now_ms: Callable[[], int],
    ) -> None:
        self._side = side
        self._routes = routes
        self._settings = settings
        self._speech = speech
        self._observer = observer
        self._names = names
        self._namespaces_of = namespaces_of
        self._published = published
        self._now_ms = now_ms
        self._said = Announcements(settings.own_rooms())
        self._told: dict[AgentAddress, tuple[AgentStatus, str | None]] = {}
        self._quiet: LRUCache[AgentAddress, int] = LRUCache(MOST_REMEMBERED)
        self._missed: LRUCache[AgentAddress, int] = LRUCache(MOST_REMEMBERED)
        self._due: dict[AgentAddress, None] = {}
        self._later: Deadlines[AgentAddress] = Deadlines()
        self._woken = asyncio.Event()
        self._idle = asyncio.Event()
        self._is_saying = False
        self._background = BackgroundTasks()
        self._end: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Whatever the rooms do not say yet is said from now on."""
        self._end = self._routes.subscribe(self._changed)
        here = self._routes.table.agents_of(self._settings.node_id)
        for room in self._settings.own_rooms():
            if self._settings.has_rooms:
                await self._read(room)
            else:
                self._believe_said(room, here.values())
        for agent in here.values():
            if agent.is_online:
                # What it does now is said by the heartbeat that follows.
                self._told[agent.address] = agent.status, agent.current_task
        self._wake(AgentAddress(one, self._settings.node_id) for one in {*here, *self._said.agents()})
        self._background.supervise("announcements of agents", self._run)

    async def close(self) -> None:
        self._end()
        await self._background.close()

    async def settled(self, patience: float) -> None:
        """Until all that can be said now has been said, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self._due or self._is_saying:
                    self._idle.clear()
                    await self._idle.wait()

    async def say_again(self, address: AgentAddress) -> None:
        """Another node believes that the agent is gone: "answers with a fresh `registered` if it lives"."""
        agent, now_ms = self._routes.agent(address), self._now_ms()
        if agent is None or not agent.is_online or now_ms < (self._missed.get(address) or 0) + AGAIN_MS:
            return
        self._missed[address] = now_ms
        fresh = registered(agent._replace(sent_at=max(agent.sent_at, now_ms)))
        rooms = self._rooms(agent)
        for room in rooms:
            await self._set(room, fresh)
        await self._published.tell(fresh, rooms)

    def all_registered(self, peer: Peer) -> list[Registered]:
        """Of the agents that are here now, those that this peer may know."""
        agents = self._routes.table.agents_of(self._settings.node_id).values()
        return [registered(agent) for agent in agents if agent.is_online and self._is_for(agent, peer)]

    def are_all_told_to_all(self) -> bool:
        """Whether there is no agent here that only some may know."""
        agents = self._routes.table.agents_of(self._settings.node_id).values()
        to_all = (self._settings.broadcast_room,)
        return all(self._rooms(agent) == to_all for agent in agents if agent.is_online)

    # -- what is to be said --

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
            due = list(self._due)[:AT_ONCE]
            for address in due:
                del self._due[address]
            if due:
                self._is_saying = True
                await asyncio.gather(*map(self._try, due))
                self._is_saying = False
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
            is_done = await self._say(address)
        except ConnectionLost:
            is_done = False  # whoever was away is told of by itself
        except Exception as error:
            self._observer.problem(f"Others could not be told of {address}.", error)
            is_done = False
        if not is_done:
            self._later.set(address, self._now_ms() + RETRY_MS)

    async def _say(self, address: AgentAddress) -> bool:
        """Whether all has been said."""
        agent = self._routes.agent(address)
        if agent is None:
            agent = _forgotten(address, self._now_ms())
        rooms = self._rooms(agent)
        missing = self._said.missing(agent, rooms)
        for room, event in missing:
            if not await self._set(room, event):
                return False
        if missing and isinstance(missing[-1][1], Registered) is agent.is_online:
            await self._published.tell(missing[-1][1], rooms)
        done = await self._say_status(agent, rooms)
        await self._show(agent)
        return done

    async def _set(self, room: AgentRoom, event: Registered | Unregistered) -> bool:
        if self._settings.has_rooms and isinstance(
            await self._speech.set_state(event, room, event.agent_id), NotSaid
        ):
            return False
        self._said.read(room, event)
        return True

    async def _say_status(self, agent: Agent, rooms: Collection[AgentRoom]) -> bool:
        address, now_ms = agent.address, self._now_ms()
        if not agent.is_online:
            self._told.pop(address, None)
            return True
        status = agent.status, agent.current_task
        if status == self._told.get(address, (AgentStatus.IDLE, None)):
            self._told[address] = status
            return True
        quiet_until = self._quiet.get(address)
        if quiet_until is not None and now_ms < quiet_until:
            self._later.set(address, quiet_until)
            return True
        self._quiet[address] = now_ms + self._settings.status_pause_ms
        event = status_update(agent)
        for room in rooms if self._settings.has_rooms else ():
            name = f"status {event.sent_at} {agent.status} {agent.current_task}"
            if isinstance(await self._speech.say(event, room, address, name), NotSaid):
                return False
        self._told[address] = status
        await self._published.tell(event, rooms)
        return True

    async def _show(self, agent: Agent) -> None:
        """To people, and to other homeservers, which know nothing of agents."""
        user = self._names.ghost(agent.address)
        if isinstance(user, str):
            presence = PRESENCE[agent.status] if agent.is_online else GONE
            with contextlib.suppress(MatrixError):  # who has switched presence off sees none
                await self._side.set_presence(user, presence.state, status=presence.status)

    # -- what has been said --

    def _believe_said(self, room: AgentRoom, agents: Iterable[Agent]) -> None:
        """Of who is gone that he was here, so that it is said once more that he is not."""
        for agent in agents:
            if not agent.is_online:
                self._said.read(room, registered(agent))

    async def _read(self, room: AgentRoom) -> None:
        for type_ in (Registered.TYPE, Unregistered.TYPE):
            for entry in await self._side.state(room_id(room), type_):
                event = content.read(entry.type, dict(entry.content))
                if isinstance(event, Registered | Unregistered) and event.agent_id == entry.state_key:
                    self._said.read(room, event)

    # -- to whom --

    def _rooms(self, agent: Agent) -> tuple[AgentRoom, ...]:
        return self._settings.announced_in(self._namespaces_of(agent))

    def _is_for(self, agent: Agent, peer: Peer) -> bool:
        return any(self._settings.may_use(peer, room) for room in self._rooms(agent))


def _forgotten(address: AgentAddress, now_ms: int) -> Agent:
    """One of which nothing more is known than that it is not here."""
    return Agent(
        address.agent_id,
        address.node_id,
        "",
        "",
        (),
        AgentStatus.SHUTDOWN,
        None,
        0,
        0,
        None,
        now_ms,
        SHUTDOWN,
    )
