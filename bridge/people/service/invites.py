"""Accepts and rejects invites, and invites or kicks people in agents' rooms.

It is a separate reader of the stream, because it may wait for a server that does not answer. Messages in the
same room are handled meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from bridge.matrix.backend import MatrixBackend
from bridge.observability.report import Report
from bridge.people.invite_policy import Accept, Invite, InvitePolicy, Kick, MembershipAction, Refuse, decide
from bridge.people.message import ENCRYPTION, MEMBER
from bridge.people.room import RoomKind
from bridge.people.service.messenger import Messenger
from bridge.people.service.rooms import RoomContextCache
from bridge.people.texts.text import Text
from bridge.tasks.retry import RetryPolicy
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain

NAME: Final = "people-doors"
RETRIES: Final = RetryPolicy(max_retries=5, base_delay_ms=200)
MAX_ROOMS: Final = 1_000
"""Maximum number of rooms that a local user joins."""
WELCOME: Final = 'I am the node of these agents. Send "help" for a list of commands.'


class InviteHandler:
    """Handles membership events according to the invite policy."""

    def __init__(
        self,
        backend: MatrixBackend,
        policy: InvitePolicy,
        messenger: Messenger,
        contexts: RoomContextCache,
        report: Report,
    ) -> None:
        self._backend = backend
        self._invite_policy = policy
        self._messenger = messenger
        self._contexts = contexts
        self._report = report

    def concerns(self, event: RoomEvent) -> bool:
        return event.type == MEMBER

    def queue_of(self, entry: StreamedEvent) -> str | None:
        """Return a queue for each user of a room, so that a user does not wait for the server of another."""
        if decide(entry, self._invite_policy) is None:
            return None
        return f"{entry.event.room_id} {entry.event.state_key}"

    async def handle(self, entry: StreamedEvent) -> None:
        event = entry.event
        action = decide(entry, self._invite_policy)
        if action is None:
            return
        try:
            await self._execute(entry, action)
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(
                f"The membership event of {event.sender} in the room {event.room_id} could not be handled.", refused
            )

    async def _execute(self, entry: StreamedEvent, action: MembershipAction) -> None:
        room_id, node_user = entry.event.room_id, self._invite_policy.node_user
        match action:
            case Accept(user):
                await self._accept(entry, user)
            case Refuse(user, reason):
                await self._backend.leave(room_id, user, reason=reason)
            case Invite(user):
                await _retry(lambda: self._backend.invite(room_id, node_user, user))
            case Kick(user, reason):
                await self._backend.kick(room_id, node_user, user, reason=reason)

    async def _accept(self, entry: StreamedEvent, user: str) -> None:
        event = entry.event
        room_id = event.room_id
        if len(await self._backend.joined_rooms(user)) >= MAX_ROOMS:
            reason = f"I have already joined {MAX_ROOMS} rooms and cannot join more."
            await self._backend.leave(room_id, user, reason=reason)
            return
        await self._join(room_id, user, event.sender)
        if await self._backend.state_event(room_id, ENCRYPTION) is not None:
            await self._messenger.notify_encrypted(room_id, [user])
        elif user == self._invite_policy.node_user:
            await self._welcome(room_id, user)

    async def _join(self, room_id: str, user: str, sender: str) -> None:
        """Join with retries: the inviting server may process its own invite after it was received here, and
        refuses the join until then."""
        via = [server] if (server := domain(sender)) else []
        await _retry(lambda: self._backend.join(room_id, user, via=via))

    async def _welcome(self, room_id: str, user: str) -> None:
        room = await self._contexts.fetch(room_id)
        if room is not None and room.kind is RoomKind.NODE_CHAT:
            await self._messenger.send_once(room_id, user, "welcome", Text.of(WELCOME))


async def _retry(action: Callable[[], Awaitable[object]]) -> None:
    """Execute the action with retries, because the user will not send the membership event again."""
    failures = 0
    while True:
        try:
            await action()
        except (MatrixError, PeerError):
            failures += 1
            delay_ms = RETRIES.delay_ms(failures)
            if delay_ms is None:
                raise
            await asyncio.sleep(delay_ms / 1000)
        else:
            return
