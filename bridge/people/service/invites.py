"""Answers invites, and lets people into rooms of agents or shows them out.

It reads for itself, because a server that does not answer may keep it waiting: what is said in the same room
is answered meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bridge.matrix.backend import MatrixBackend
from bridge.observability.report import Report
from bridge.people.invite_policy import Accept, Act, Door, LetIn, Refuse, ShowOut, decide
from bridge.people.message import ENCRYPTION, MEMBER
from bridge.people.place import Kind
from bridge.people.service.messenger import Voice
from bridge.people.service.rooms import RoomMemory
from bridge.people.texts.text import Text
from bridge.tasks.retry import RetryPolicy
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain

NAME: Final = "people-doors"
AGAIN: Final = RetryPolicy(max_retries=5, base_delay_ms=200)
MOST_ROOMS: Final = 1_000
"""Into which one user of this node is invited."""
WELCOME: Final = 'I am the node on which these agents live. Say "help" for what I can be asked.'


class Doorkeeper:
    def __init__(
        self, side: MatrixBackend, door: Door, voice: Voice, memory: RoomMemory, report: Report
    ) -> None:
        self._side = side
        self._door = door
        self._voice = voice
        self._memory = memory
        self._report = report

    def concerns(self, event: RoomEvent) -> bool:
        """Who comes and goes."""
        return event.type == MEMBER

    def queue_of(self, entry: StreamedEvent) -> str | None:
        """Nobody who comes into a room waits for somebody else's server."""
        if decide(entry, self._door) is None:
            return None
        return f"{entry.event.room_id} {entry.event.state_key}"

    async def handle(self, entry: StreamedEvent) -> None:
        event = entry.event
        act = decide(entry, self._door)
        if act is None:
            return
        try:
            await self._act(entry, act)
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(f"{event.sender} and the room {event.room_id}: nobody was let in or out.", refused)

    async def _act(self, entry: StreamedEvent, act: Act) -> None:
        room_id, node_user = entry.event.room_id, self._door.node_user
        match act:
            case Accept(user):
                await self._accept(entry, user)
            case Refuse(user, reason):
                await self._side.leave(room_id, user, reason=reason)
            case LetIn(user):
                await _persistently(lambda: self._side.invite(room_id, node_user, user))
            case ShowOut(user, reason):
                await self._side.kick(room_id, node_user, user, reason=reason)

    async def _accept(self, entry: StreamedEvent, user: str) -> None:
        event = entry.event
        room_id = event.room_id
        if len(await self._side.joined_rooms(user)) >= MOST_ROOMS:
            reason = f"I am in {MOST_ROOMS} rooms already, and cannot be in more."
            await self._side.leave(room_id, user, reason=reason)
            return
        await self._join(room_id, user, event.sender)
        if await self._side.state_event(room_id, ENCRYPTION) is not None:
            await self._voice.cannot_read(room_id, [user])
        elif user == self._door.node_user:
            await self._welcome(room_id, user)

    async def _join(self, room_id: str, user: str, sender: str) -> None:
        """The invite is here before the server that sent it has taken it in, and says until then that there
        is none."""
        via = [server] if (server := domain(sender)) else []
        await _persistently(lambda: self._side.join(room_id, user, via=via))

    async def _welcome(self, room_id: str, user: str) -> None:
        place = await self._memory.look(room_id)
        if place is not None and place.kind is Kind.DESK:
            await self._voice.say_once(room_id, user, "welcome", Text.of(WELCOME))


async def _persistently(act: Callable[[], Awaitable[object]]) -> None:
    """Whoever waits at a door asks only once."""
    failures = 0
    while True:
        try:
            await act()
        except (MatrixError, PeerError):
            failures += 1
            delay_ms = AGAIN.delay_ms(failures)
            if delay_ms is None:
                raise
            await asyncio.sleep(delay_ms / 1000)
        else:
            return
