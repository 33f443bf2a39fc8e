"""The rooms of agents: makes them, and lets agents come into them.

What kind of room each is, remembered until somebody comes or goes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.routing_table import Change
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghosts import Ghosts
from bridge.observability.report import Report
from bridge.people.message import ENCRYPTION, MEMBER
from bridge.people.place import AGENTS_ROOM, Members, Place, alias, members_of, place_of, request_for
from bridge.people.service.identities import Identities
from bridge.people.settings import PeopleSettings
from bridge.people.texts.command_texts import RoomOfAgents
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

MOST_WAITING: Final = 10_000
"""Agents that are to come in. Others come when they speak."""
AGAIN: Final = 1.0
"""Seconds until it is tried again to let somebody come in, while the homeserver or the database is away."""
ENCRYPTED: Final = (
    "The room {} is encrypted, and agents cannot read what people say in it. A homeserver may encrypt all"
    " rooms that are made on it (encryption_enabled_by_default_for_room_type of Synapse): have it leave out"
    " public ones, and this room made anew."
)
NamespacesOf = Callable[[AgentAddress], Sequence[str]]


class AgentsRooms:
    def __init__(
        self,
        side: MatrixBackend,
        settings: PeopleSettings,
        identities: Identities,
        ghosts: Ghosts,
        namespaces_of: NamespacesOf,
        report: Report,
    ) -> None:
        self._side = side
        self._settings = settings
        self._identities = identities
        self._ghosts = ghosts
        self._namespaces_of = namespaces_of
        self._report = report
        self._rooms: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._full: set[str] = set()
        self._given_up: set[str] = set()
        self._to_come: dict[AgentAddress, None] = {}
        self._wanted = asyncio.Event()
        self._background = BackgroundTasks()
        self._making = asyncio.Lock()

    async def start(self, agents: Sequence[Agent]) -> None:
        """The rooms are there when this returns; the agents of this node come in by and by."""
        await self._ghosts.ensure(self._settings.node_user)
        for namespace in self._settings.namespaces:
            await self._make(namespace)
        for agent in agents:
            self._expect(agent)
        self._background.supervise("agents come into their rooms", self._let_come)

    async def close(self) -> None:
        await self._background.close()

    # -- asking --

    def namespace(self, room_id: str) -> str | None:
        """Of a room of this node; None for any other room."""
        return self._namespaces.get(room_id)

    def room(self, *concerned: AgentAddress) -> str | None:
        """Where a task of these agents is shown: in a namespace of the first that has one."""
        for address in concerned:
            for namespace in self._namespaces_of(address):
                if namespace in self._rooms:
                    return self._rooms[namespace]
        return self._rooms.get(self._settings.namespaces[0]) if self._settings.namespaces else None

    def all(self) -> Mapping[str, str]:
        """Room ids by namespace."""
        return self._rooms

    def listed(self) -> list[RoomOfAgents]:
        return [
            RoomOfAgents(namespace, alias(namespace, self._settings)) for namespace in sorted(self._rooms)
        ]

    async def provide(self, namespace: str) -> bool:
        """Whether its room is there, which is made if it could not be before."""
        if namespace not in self._settings.namespaces or namespace in self._given_up:
            return False
        if namespace not in self._rooms:
            async with self._making:
                if namespace not in self._rooms:
                    await self._make(namespace)
        return namespace in self._rooms

    def give_up(self, namespace: str) -> None:
        """Nothing more is shown in its room, and nobody comes into it. The next start makes one again."""
        self._given_up.add(namespace)
        room_id = self._rooms.pop(namespace, None)
        if room_id is not None:
            self._namespaces.pop(room_id, None)

    # -- who is in them --

    def agents_changed(self, changes: Sequence[Change]) -> None:
        """A listener for the routing table."""
        for change in changes:
            before, after = change.before, change.after
            if after is not None and (
                before is None or not before.is_online or before.runtime != after.runtime
            ):
                self._expect(after)

    async def let_in(self, room_id: str, user: str) -> bool:
        """A user of this node. Whether it is in the room now."""
        try:
            await self._ghosts.join(room_id, user)
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(f"{user} cannot come into the room {room_id}.", refused)
            return False
        return True

    # -- inside --

    async def _make(self, namespace: str) -> None:
        """One that cannot be made is told of, and is no harm to the others."""
        settings = self._settings
        try:
            made = await self._side.create_room(request_for(namespace, settings))
            if not made.is_new:
                await self._side.join(made.room_id, settings.node_user)
                rule = {"join_rule": settings.join_rule}
                await self._side.set_state(made.room_id, settings.node_user, "m.room.join_rules", rule)
                await self._side.publish(made.room_id, published=settings.is_listed)
        except MatrixError as refused:
            self._report(f"The room {alias(namespace, settings)} is not there.", refused)
            return
        if await self._side.state_event(made.room_id, ENCRYPTION) is not None:
            self._report(ENCRYPTED.format(alias(namespace, settings)), None)
        self._rooms[namespace] = made.room_id
        self._namespaces[made.room_id] = namespace

    def _expect(self, agent: Agent) -> None:
        at_home = agent.node_id == self._settings.node_id
        if agent.is_online and at_home and len(self._to_come) < MOST_WAITING:
            self._to_come[agent.address] = None
            self._wanted.set()

    async def _let_come(self) -> None:
        await self._wanted.wait()
        while self._to_come:
            address = next(iter(self._to_come))
            del self._to_come[address]
            try:
                await self._let_agent_come(address)
            except MatrixError as error:
                self._report(f"{address} has not come into its rooms.", error)
            except ConnectionLost:
                # Whatever is away comes back.
                self._to_come[address] = None
                await asyncio.sleep(AGAIN)
        self._wanted.clear()

    async def _let_agent_come(self, address: AgentAddress) -> None:
        user = self._identities.ghost_of(address)
        if user is None:
            return
        for namespace in self._namespaces_of(address):
            room_id = self._rooms.get(namespace)
            if room_id is not None and await self._has_room(room_id):
                await self.let_in(room_id, user)

    async def _has_room(self, room_id: str) -> bool:
        if room_id in self._full:
            return False
        members = await self._side.members(room_id)
        ours = sum(self._identities.is_ours(member.user_id) for member in members)
        if ours > self._settings.members:  # the node is one of them
            self._full.add(room_id)
        return room_id not in self._full


MOST_REMEMBERED: Final = 2_000


class RoomMemory:
    """It is told of each event when it is read, which may be before the events of its room are handled."""

    def __init__(self, side: MatrixBackend, identities: Identities, rooms: AgentsRooms) -> None:
        self._side = side
        self._identities = identities
        self._rooms = rooms
        self._members: LRUCache[str, Members] = LRUCache(MOST_REMEMBERED)
        # How often somebody came or went.
        self._changes = 0

    def heard(self, event: RoomEvent) -> None:
        if event.type != MEMBER:
            return
        self._changes += 1
        known = self._members.get(event.room_id)
        if known is None:
            return
        # Of a large room only our own are remembered.
        if known.all is not None or self._identities.is_ours(event.state_key or ""):
            self._members.pop(event.room_id, None)

    async def place(self, room_id: str) -> Place | None:
        """None for a room that this node is not in any more."""
        try:
            members = self._members.get(room_id) or await self._look(room_id)
            return await self._place(room_id, members)
        except MatrixError:
            return None

    async def look(self, room_id: str) -> Place | None:
        """As it is now, for who does not read in order."""
        try:
            return await self._place(room_id, await self._members_now(room_id))
        except MatrixError:
            return None

    async def _place(self, room_id: str, members: Members) -> Place:
        namespace = self._rooms.namespace(room_id)
        said = None if namespace is not None else await self._side.state_event(room_id, AGENTS_ROOM)
        return place_of(
            room_id,
            members,
            namespace=namespace,
            room_of_agents=None if said is None else said.content,
            node=self._identities.names.node_id,
            node_user=self._identities.names.node_user,
            agent_of=self._identities.agent_of,
        )

    async def _look(self, room_id: str) -> Members:
        changes = self._changes
        members = await self._members_now(room_id)
        if changes == self._changes:  # otherwise it may be out of date already
            self._members[room_id] = members
        return members

    async def _members_now(self, room_id: str) -> Members:
        # Who is invited counts: a chat of two begins before the other one has come.
        found = await self._side.members(room_id, ("join", "invite"))
        joined = {member.user_id for member in found if member.membership == "join"}
        members = members_of({member.user_id for member in found}, self._identities.is_ours)
        return Members(members.all, members.ours & joined)
