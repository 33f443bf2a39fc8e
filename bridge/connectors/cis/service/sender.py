"""Says something in a room, as an agent of this node or as the node itself.

An agent's user comes into a room when it first speaks there. The same thing may be said again: under its name
it is the same event.

The way to a node: its rooms, or single events over HTTP.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.acts import Act, Verdict, subject_of
from bridge.connectors.cis.protocol import content, large_output
from bridge.connectors.cis.protocol.events import AnyEvent, Registered, Unregistered
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.connectors.cis.protocol.rooms import AgentRoom, BroadcastRoom, FederationRoom, room_id
from bridge.connectors.cis.service.long_texts import fitting
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
    from bridge.connectors.cis.http.publishing import Publishing


MOST_REMEMBERED: Final = 100_000
"""Of who is in which room."""
MOST_SPEAKERS: Final = 10_000
"""Of whom it is remembered which users they are."""
TIMEOUT: Final = 10.0
"""Seconds that coming into a room may take. Whoever has something to say tries again."""


@dataclass(frozen=True, slots=True)
class Said:
    event_id: str


@dataclass(frozen=True, slots=True)
class NotSaid:
    """`is_final`: it would be the same the next time."""

    reason: str
    is_final: bool = False


class Speech:
    def __init__(
        self, side: MatrixBackend, settings: CisSettings, observer: CisObserver, ghosts: Ghosts
    ) -> None:
        self._side = side
        self._settings = settings
        self._observer = observer
        self._ghosts = ghosts
        self._there: LRUCache[tuple[str, str], bool] = LRUCache(MOST_REMEMBERED)
        self._users: LRUCache[AgentAddress, str] = LRUCache(MOST_SPEAKERS)
        self._coming: SingleFlight[tuple[str, str], None] = SingleFlight()

    async def close(self) -> None:
        await self._coming.close()

    async def say(self, event: AnyEvent, room: AgentRoom, speaker: AgentAddress, name: str) -> Said | NotSaid:
        """`speaker` is an agent of this node; `name` is what the event is known by when it is said again."""
        user = self._user(speaker)
        if isinstance(user, NotSaid):
            return user
        said, where = content.render(event, PeerProfile.MATRIX), room_id(room)
        if not large_output.fits(said, PeerProfile.MATRIX):
            short = await fitting(self._side, event, user, PeerProfile.MATRIX)
            if isinstance(short, TooLarge):
                return NotSaid(short.reason, is_final=True)
            said = content.render(short, PeerProfile.MATRIX)
        # A transaction id has at most 255 bytes; names hold what others have chosen.
        transaction_id = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        outcome = await self._in_room(
            where,
            room.node_id,
            user,
            lambda: self._side.send(where, user, event.TYPE, said, transaction_id=transaction_id),
        )
        self._note(event, user, where, room.node_id, outcome)
        return outcome

    async def set_state(self, event: AnyEvent, room: AgentRoom, state_key: str) -> Said | NotSaid:
        """The node says it, and the room keeps it."""
        user, where = self._settings.node_user, room_id(room)
        said: Mapping[str, Any] = content.render(event, PeerProfile.MATRIX)
        outcome = await self._in_room(
            where, room.node_id, user, lambda: self._side.set_state(where, user, event.TYPE, said, state_key)
        )
        self._note(event, user, where, room.node_id, outcome)
        return outcome

    async def come(self, where: str, user: str, via: str) -> None:
        """Let a user of this node be in a room. Raises `MatrixError`, and `TimeoutError` when it takes too
        long: then it may still happen."""
        is_there = self._there.get((where, user)) is not None
        if is_there and self._ghosts.is_as_it_was(user):
            return
        async with asyncio.timeout(TIMEOUT):
            if not is_there:
                await self._coming.run((where, user), lambda: self._come(where, user, via))
            else:
                # It may be another one than it was when it came.
                await self._ghosts.appear(user)

    def gone(self, where: str, user: str) -> None:
        """The user has left the room, or was made to."""
        self._there.pop((where, user), None)

    # -- inside --

    def _user(self, speaker: AgentAddress) -> str | NotSaid:
        if not self._settings.is_own(speaker):
            return NotSaid(f"{speaker} is no agent of this node.", is_final=True)
        user = self._users.get(speaker)
        if user is None:
            ghost = user_id(speaker)
            if isinstance(ghost, NoGhost):
                return NotSaid(ghost.reason, is_final=True)
            self._users[speaker] = user = ghost
        return user

    async def _in_room(
        self, where: str, via: str, user: str, act: Callable[[], Awaitable[str]]
    ) -> Said | NotSaid:
        """Once more from the beginning when it turns out that the user is not there after all."""
        for is_last in (False, True):
            was_there = self._there.get((where, user)) is not None
            try:
                await self.come(where, user, via)
                return Said(await act())
            except MatrixError as refused:
                self.gone(where, user)
                if is_last or not was_there or refused.status not in (403, 404):
                    return NotSaid(refused.text, is_final=refused.errcode in {"M_TOO_LARGE", "M_BAD_JSON"})
            except TimeoutError:
                return NotSaid(f"The room {where} could not be reached in time.")
        raise AssertionError("the second time is the last")

    async def _come(self, where: str, user: str, via: str) -> None:
        await self._ghosts.let_in(where, user, via=[via])
        self._there[where, user] = True

    def _note(self, event: AnyEvent, user: str, where: str, node_id: str, outcome: Said | NotSaid) -> None:
        failed = outcome.reason if isinstance(outcome, NotSaid) else None
        self._observer.acted(
            Act(
                None if node_id == self._settings.node_id else node_id,
                event.TYPE,
                Verdict.SENT if failed is None else Verdict.FAILED,
                user,
                where,
                subject_of(event),
                failed,
            )
        )


@dataclass(frozen=True, slots=True)
class Letter:
    """An event for one node. Under its `name` it is the same one when it is sent again. `deadline`: after it
    nobody wants it any more. `task`: the one that fails if the node will not take it."""

    event: AnyEvent
    namespace: str
    speaker: AgentAddress
    name: str
    deadline: int
    task: TaskKey | None = None


class Channels:
    def __init__(
        self, side: MatrixBackend, settings: CisSettings, speech: Speech, published: "Publishing"
    ) -> None:
        self._side = side
        self._settings = settings
        self._speech = speech
        self._published = published

    async def send(self, access: PeerAccess, letter: Letter) -> Said | NotSaid:
        """Once it is said, it lies in a durable queue."""
        if not access.is_homeserver:
            return await self._published.post(access, letter)
        room = FederationRoom(letter.namespace, access.peer.node_id)
        return await self._speech.say(letter.event, room, letter.speaker, letter.name)

    async def namespace_of(self, peer: Peer, agent: AgentAddress) -> str | None:
        """The namespace in which an agent of the peer is spoken with: the first that it and we are in. None
        when we have none in common."""
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
            came = await self._said_at(room, Registered.TYPE, agent)
            went = await self._said_at(room, Unregistered.TYPE, agent)
        except MatrixError:
            return False
        return came is not None and (went is None or came > went)

    async def _said_at(self, room: AgentRoom, type_: str, agent: AgentAddress) -> int | None:
        """An agent that has left a namespace has both entries there: the newer one counts."""
        entry = await self._side.state_event(room_id(room), type_, agent.agent_id)
        event = None if entry is None else content.read(type_, dict(entry.content))
        return event.sent_at if isinstance(event, Registered | Unregistered) else None
