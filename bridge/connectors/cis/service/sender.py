"""Sends events to a room, as an agent of this node or as the node itself, and to a node by its rooms or over
HTTP.

An agent's user joins a room before it first sends an event there. Sending may be repeated: an event with the
same idempotency key is sent once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.event_record import EventRecord, Verdict, subject_of
from bridge.connectors.cis.protocol import content, large_output
from bridge.connectors.cis.protocol.events import AnyEvent, Registered, Unregistered
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.protocol.rooms import AgentRoom, BroadcastRoom, FederationRoom, room_id
from bridge.connectors.cis.service.long_texts import fit_event
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import NoGhost, user_id
from bridge.matrix.ghosts import Ghosts
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from bridge.tasks.request import TaskKey
from federation.matrix.errors import MatrixError
from storage.concurrency import SingleFlight

if TYPE_CHECKING:
    from bridge.connectors.cis.http.messenger import PublishedMessenger


MAX_MEMBERSHIPS: Final = 100_000
"""The number of cached memberships of local users."""
MAX_USERS: Final = 10_000
"""The number of cached user ids of agents."""
JOIN_TIMEOUT: Final = 10.0
"""Timeout in seconds for joining a room. The caller retries."""


@dataclass(frozen=True, slots=True)
class Sent:
    event_id: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """`is_final`: a retry would fail in the same way."""

    reason: str
    is_final: bool = False


class RoomSender:
    """Sends events to rooms as local users, which join the rooms as needed."""

    def __init__(self, backend: MatrixBackend, settings: CisSettings, observer: CisObserver, ghosts: Ghosts) -> None:
        self._backend = backend
        self._settings = settings
        self._observer = observer
        self._ghosts = ghosts
        self._joined: LRUCache[tuple[str, str], bool] = LRUCache(MAX_MEMBERSHIPS)
        self._users: LRUCache[AgentAddress, str] = LRUCache(MAX_USERS)
        self._joins: SingleFlight[tuple[str, str], None] = SingleFlight()

    async def close(self) -> None:
        await self._joins.close()

    async def send(self, event: AnyEvent, room: AgentRoom, sender: AgentAddress, key: str) -> Sent | NotSent:
        """Send an event as `sender`, an agent of this node. `key` identifies the event when it is sent
        again."""
        user = self._user(sender)
        if isinstance(user, NotSent):
            return user
        rendered, id_ = content.render(event, PeerProfile.MATRIX), room_id(room)
        if not large_output.fits(rendered, PeerProfile.MATRIX):
            shortened = await fit_event(self._backend, event, user, PeerProfile.MATRIX)
            if isinstance(shortened, TooLarge):
                return NotSent(shortened.reason, is_final=True)
            rendered = content.render(shortened, PeerProfile.MATRIX)
        # The key is hashed because it may hold text of any length from peers, and a transaction id has at
        # most 255 bytes.
        transaction_id = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        outcome = await self._in_room(
            id_,
            room.node_id,
            user,
            lambda: self._backend.send(id_, user, event.TYPE, rendered, transaction_id=transaction_id),
        )
        self._record(event, user, id_, room.node_id, outcome)
        return outcome

    async def set_state(self, event: AnyEvent, room: AgentRoom, state_key: str) -> Sent | NotSent:
        """Send a state event as the node itself."""
        user, id_ = self._settings.node_user, room_id(room)
        rendered: Mapping[str, Any] = content.render(event, PeerProfile.MATRIX)
        outcome = await self._in_room(
            id_, room.node_id, user, lambda: self._backend.set_state(id_, user, event.TYPE, rendered, state_key)
        )
        self._record(event, user, id_, room.node_id, outcome)
        return outcome

    async def join(self, room_id: str, user: str, via: str) -> None:
        """Make sure that a user of this node has joined a room. Raises `MatrixError`, and `TimeoutError` when
        it takes too long: the user may still join later."""
        is_joined = self._joined.get((room_id, user)) is not None
        if is_joined and self._ghosts.is_up_to_date(user):
            return
        async with asyncio.timeout(JOIN_TIMEOUT):
            if not is_joined:
                await self._joins.run((room_id, user), lambda: self._join(room_id, user, via))
            else:
                # The ghost's profile may have changed since it joined.
                await self._ghosts.ensure(user)

    def user_left(self, room_id: str, user: str) -> None:
        """The user has left the room, or was kicked or banned."""
        self._joined.pop((room_id, user), None)

    # -- inside --

    def _user(self, sender: AgentAddress) -> str | NotSent:
        if not self._settings.is_own(sender):
            return NotSent(f"{sender} is not an agent of this node.", is_final=True)
        user = self._users.get(sender)
        if user is None:
            ghost = user_id(sender)
            if isinstance(ghost, NoGhost):
                return NotSent(ghost.reason, is_final=True)
            self._users[sender] = user = ghost
        return user

    async def _in_room(self, room_id: str, via: str, user: str, action: Callable[[], Awaitable[str]]) -> Sent | NotSent:
        """Join the room and run the action. If a cached membership was wrong, both are repeated once."""
        for is_last in (False, True):
            was_joined = self._joined.get((room_id, user)) is not None
            try:
                await self.join(room_id, user, via)
                return Sent(await action())
            except MatrixError as error:
                self.user_left(room_id, user)
                if is_last or not was_joined or error.status not in (403, 404):
                    return NotSent(error.text, is_final=error.errcode in {"M_TOO_LARGE", "M_BAD_JSON"})
            except TimeoutError:
                return NotSent(f"The room {room_id} could not be joined in time.")
        raise AssertionError("the second attempt returns")

    async def _join(self, room_id: str, user: str, via: str) -> None:
        await self._ghosts.join(room_id, user, via=[via])
        self._joined[room_id, user] = True

    def _record(self, event: AnyEvent, user: str, room_id: str, node_id: str, outcome: Sent | NotSent) -> None:
        failed = outcome.reason if isinstance(outcome, NotSent) else None
        self._observer.record(
            EventRecord(
                None if node_id == self._settings.node_id else node_id,
                event.TYPE,
                Verdict.SENT if failed is None else Verdict.FAILED,
                user,
                room_id,
                subject_of(event),
                failed,
            )
        )


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event for one node. `key` identifies it when it is sent again. It is dropped after `deadline`, in
    milliseconds. `task` is the task that fails if the node does not accept the event."""

    event: AnyEvent
    namespace: str
    sender: AgentAddress
    key: str
    deadline: int
    task: TaskKey | None = None


class PeerMessenger:
    """Sends events to a node, as its profile requires: to its rooms, or over HTTP."""

    def __init__(
        self, backend: MatrixBackend, settings: CisSettings, room_sender: RoomSender, published: "PublishedMessenger"
    ) -> None:
        self._backend = backend
        self._settings = settings
        self._room_sender = room_sender
        self._published = published

    async def send(self, access: PeerAccess, outgoing: OutgoingEvent) -> Sent | NotSent:
        """Send an event. When this returns `Sent`, the event is in a durable queue."""
        if not access.is_homeserver:
            return await self._published.send(access, outgoing)
        room = FederationRoom(outgoing.namespace, access.peer.node_id)
        return await self._room_sender.send(outgoing.event, room, outgoing.sender, outgoing.key)

    async def namespace_of(self, peer: Peer, agent: AgentAddress) -> str | None:
        """Return the namespace in which an agent of the peer is reached: the first common one in which it is
        registered. None if this node and the peer have no namespace in common."""
        common = self._settings.common_namespaces(peer)
        if len(common) < 2 or not self._settings.peers[peer.node_id].is_homeserver:
            return next(iter(common), None)
        for namespace in common:
            if await self._is_registered(peer, namespace, agent):
                return namespace
        return common[0]

    async def _is_registered(self, peer: Peer, namespace: str, agent: AgentAddress) -> bool:
        is_main = namespace == self._settings.main_namespace
        room = BroadcastRoom(peer.node_id) if is_main else FederationRoom(namespace, peer.node_id)
        try:
            registered_at = await self._state_time(room, Registered.TYPE, agent)
            unregistered_at = await self._state_time(room, Unregistered.TYPE, agent)
        except MatrixError:
            return False
        # An agent that has left a namespace has both entries there: the newer one counts.
        return registered_at is not None and (unregistered_at is None or registered_at > unregistered_at)

    async def _state_time(self, room: AgentRoom, type_: str, agent: AgentAddress) -> int | None:
        entry = await self._backend.state_event(room_id(room), type_, agent.agent_id)
        event = None if entry is None else content.read(type_, dict(entry.content))
        return event.sent_at if isinstance(event, Registered | Unregistered) else None
