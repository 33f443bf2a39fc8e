"""Creates the agents' rooms and joins agents to them, and caches the kinds of rooms."""

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
from bridge.people.room import AGENTS_ROOM, Members, RoomContext, alias, creation_request, members_of, room_context
from bridge.people.service.identities import Identities
from bridge.people.settings import PeopleSettings
from bridge.people.texts.command_texts import RoomOfAgents
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

MAX_WAITING: Final = 10_000
"""Maximum number of agents that wait to join. Others join when they send their first message."""
RETRY_DELAY: Final = 1.0
"""Seconds until a join is retried while the homeserver or the database is unavailable."""
ENCRYPTED: Final = (
    "The room {} is encrypted, and agents cannot read encrypted messages. The homeserver may encrypt all new"
    " rooms (encryption_enabled_by_default_for_room_type of Synapse): exclude public rooms there, and create"
    " this room again."
)
NamespacesOf = Callable[[AgentAddress], Sequence[str]]


class AgentsRooms:
    """The agents' rooms of this node, one for each namespace."""

    def __init__(
        self,
        backend: MatrixBackend,
        settings: PeopleSettings,
        identities: Identities,
        ghosts: Ghosts,
        namespaces_of: NamespacesOf,
        report: Report,
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._identities = identities
        self._ghosts = ghosts
        self._namespaces_of = namespaces_of
        self._report = report
        self._rooms: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._full: set[str] = set()
        self._given_up: set[str] = set()
        self._to_join: dict[AgentAddress, None] = {}
        self._has_scheduled = asyncio.Event()
        self._background = BackgroundTasks()
        self._creating = asyncio.Lock()

    async def start(self, agents: Sequence[Agent]) -> None:
        """Create or join the rooms. The local agents join them in the background."""
        await self._ghosts.ensure(self._settings.node_user)
        for namespace in self._settings.namespaces:
            await self._create(namespace)
        for agent in agents:
            self._schedule_join(agent)
        self._background.supervise("agents join their rooms", self._join_scheduled)

    async def close(self) -> None:
        await self._background.close()

    # -- lookup --

    def namespace(self, room_id: str) -> str | None:
        """The namespace of an agents' room of this node, or None for any other room."""
        return self._namespaces.get(room_id)

    def room(self, *concerned: AgentAddress) -> str | None:
        """The room in which a task of these agents is shown: of the first namespace that has a room."""
        for address in concerned:
            for namespace in self._namespaces_of(address):
                if namespace in self._rooms:
                    return self._rooms[namespace]
        return self._rooms.get(self._settings.namespaces[0]) if self._settings.namespaces else None

    def all(self) -> Mapping[str, str]:
        """The room ids by namespace."""
        return self._rooms

    def listed(self) -> list[RoomOfAgents]:
        return [RoomOfAgents(namespace, alias(namespace, self._settings)) for namespace in sorted(self._rooms)]

    async def provide(self, namespace: str) -> bool:
        """Return whether the room exists. If its creation has failed before, try again."""
        if namespace not in self._settings.namespaces or namespace in self._given_up:
            return False
        if namespace not in self._rooms:
            async with self._creating:
                if namespace not in self._rooms:
                    await self._create(namespace)
        return namespace in self._rooms

    def give_up(self, namespace: str) -> None:
        """Stop using the namespace's room until the next start, which creates a new one."""
        self._given_up.add(namespace)
        room_id = self._rooms.pop(namespace, None)
        if room_id is not None:
            self._namespaces.pop(room_id, None)

    # -- members --

    def agents_changed(self, changes: Sequence[Change]) -> None:
        """Schedule joins of new agents. A listener of the routing table."""
        for change in changes:
            before, after = change.before, change.after
            if after is not None and (before is None or not before.is_online or before.runtime != after.runtime):
                self._schedule_join(after)

    async def join(self, room_id: str, user: str) -> bool:
        """Join a local user to the room, and return whether it has joined."""
        try:
            await self._ghosts.join(room_id, user)
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(f"{user} cannot join the room {room_id}.", refused)
            return False
        return True

    # -- inside --

    async def _create(self, namespace: str) -> None:
        """Create or join the room of a namespace. A failure is reported and does not affect other rooms."""
        settings = self._settings
        try:
            created = await self._backend.create_room(creation_request(namespace, settings))
            if not created.is_new:
                await self._backend.join(created.room_id, settings.node_user)
                rule = {"join_rule": settings.join_rule}
                await self._backend.set_state(created.room_id, settings.node_user, "m.room.join_rules", rule)
                await self._backend.publish(created.room_id, published=settings.is_listed)
        except MatrixError as refused:
            self._report(f"The room {alias(namespace, settings)} could not be created.", refused)
            return
        if await self._backend.state_event(created.room_id, ENCRYPTION) is not None:
            self._report(ENCRYPTED.format(alias(namespace, settings)), None)
        self._rooms[namespace] = created.room_id
        self._namespaces[created.room_id] = namespace

    def _schedule_join(self, agent: Agent) -> None:
        is_local = agent.node_id == self._settings.node_id
        if agent.is_online and is_local and len(self._to_join) < MAX_WAITING:
            self._to_join[agent.address] = None
            self._has_scheduled.set()

    async def _join_scheduled(self) -> None:
        await self._has_scheduled.wait()
        while self._to_join:
            address = next(iter(self._to_join))
            del self._to_join[address]
            try:
                await self._join_agent(address)
            except MatrixError as error:
                self._report(f"{address} could not join its rooms.", error)
            except ConnectionLost:
                self._to_join[address] = None
                await asyncio.sleep(RETRY_DELAY)
        self._has_scheduled.clear()

    async def _join_agent(self, address: AgentAddress) -> None:
        user = self._identities.ghost_of(address)
        if user is None:
            return
        for namespace in self._namespaces_of(address):
            room_id = self._rooms.get(namespace)
            if room_id is not None and await self._has_space(room_id):
                await self.join(room_id, user)

    async def _has_space(self, room_id: str) -> bool:
        if room_id in self._full:
            return False
        members = await self._backend.members(room_id)
        local = sum(self._identities.is_local(member.user_id) for member in members)
        if local > self._settings.members:  # the node's user is one of them
            self._full.add(room_id)
        return room_id not in self._full


MAX_CACHED: Final = 2_000


class RoomContextCache:
    """Caches the members of rooms until they change. `handle` must receive each event when it is read, which
    may be before earlier events of its room are handled."""

    def __init__(self, backend: MatrixBackend, identities: Identities, rooms: AgentsRooms) -> None:
        self._backend = backend
        self._identities = identities
        self._rooms = rooms
        self._members: LRUCache[str, Members] = LRUCache(MAX_CACHED)
        # The number of membership events so far.
        self._changes = 0

    def handle(self, event: RoomEvent) -> None:
        """Invalidate the members of the room if the event is a membership event."""
        if event.type != MEMBER:
            return
        self._changes += 1
        cached = self._members.get(event.room_id)
        if cached is None:
            return
        # Of a large room only local members are cached.
        if cached.all is not None or self._identities.is_local(event.state_key or ""):
            self._members.pop(event.room_id, None)

    async def context(self, room_id: str) -> RoomContext | None:
        """Return the context of a room, or None if this node has left the room."""
        try:
            members = self._members.get(room_id) or await self._fetch_and_cache(room_id)
            return await self._context(room_id, members)
        except MatrixError:
            return None

    async def fetch(self, room_id: str) -> RoomContext | None:
        """Return the current context without using the cache, for callers that do not read events in
        order."""
        try:
            return await self._context(room_id, await self._fetch_members(room_id))
        except MatrixError:
            return None

    async def _context(self, room_id: str, members: Members) -> RoomContext:
        namespace = self._rooms.namespace(room_id)
        event = None if namespace is not None else await self._backend.state_event(room_id, AGENTS_ROOM)
        return room_context(
            room_id,
            members,
            namespace=namespace,
            agents_room_content=None if event is None else event.content,
            node=self._identities.names.node_id,
            node_user=self._identities.names.node_user,
            agent_of=self._identities.agent_of,
        )

    async def _fetch_and_cache(self, room_id: str) -> Members:
        changes = self._changes
        members = await self._fetch_members(room_id)
        if changes == self._changes:  # otherwise the members may already be outdated
            self._members[room_id] = members
        return members

    async def _fetch_members(self, room_id: str) -> Members:
        # Invited users count: a direct chat begins before the other user has joined.
        found = await self._backend.members(room_id, ("join", "invite"))
        joined = {member.user_id for member in found if member.membership == "join"}
        members = members_of({member.user_id for member in found}, self._identities.is_local)
        return Members(members.all, members.local & joined)
