"""Sends messages to rooms as users of this node, and replies to people where they have written.

A message has a transaction id that is derived from its subject: sent again after a kill, it is the same
event. A message that a room refuses is reported to the operator and not retried.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bridge.matrix.backend import MatrixBackend
from bridge.observability.report import Report
from bridge.people.message import MESSAGE, REACTION, TaskMessages, parse_message
from bridge.people.permissions import Level
from bridge.people.room import RoomContext
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import Kind, Text, content_of, one_line
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import edit, in_thread, reaction, reply
from federation.peers.limits import Buckets
from storage.concurrency import KeyedLock
from storage.database import Database
from storage.people import people

ENCRYPTED: Final = "encrypted"
CANNOT_READ: Final = (
    "This room is encrypted, and agents cannot read encrypted messages. Use a room without encryption to work"
    " with them."
)


class Messenger:
    """Sends, edits and redacts events of local users.

    Methods return None if the room refuses the event. They raise `MatrixError` only if it is worth a retry:
    for rate limits and errors of the homeserver.
    """

    def __init__(self, backend: MatrixBackend, database: Database, node_user: str, report: Report) -> None:
        self._backend = backend
        self._database = database
        self._node_user = node_user
        self._report = report
        self._once: KeyedLock[str] = KeyedLock()

    async def find_sender(self, room_id: str, candidates: Sequence[str | None]) -> str | None:
        """Return the first of these users that has joined the room."""
        for user in dict.fromkeys(candidates):
            if user is not None and await self._membership(room_id, user) == "join":
                return user
        return None

    async def send(
        self, room_id: str, sender: str, content: Mapping[str, Any], transaction_id: str | None = None
    ) -> str | None:
        """Send a message and return its event id."""
        return await self._try(
            room_id, self._backend.send(room_id, sender, MESSAGE, content, transaction_id=transaction_id)
        )

    async def edit(
        self, room_id: str, event_id: str, content: Mapping[str, Any], transaction_id: str | None = None
    ) -> str | None:
        """Edit a message as its sender."""
        event = await self._backend.event(room_id, event_id)
        if event is None or event.is_redacted:
            return None
        return await self.send(room_id, event.sender, edit(event_id, content), transaction_id)

    async def react(self, room_id: str, sender: str, event_id: str, key: str, transaction_id: str) -> str | None:
        content = reaction(event_id, key)
        return await self._try(
            room_id, self._backend.send(room_id, sender, REACTION, content, transaction_id=transaction_id)
        )

    async def redact(self, room_id: str, event_id: str, transaction_id: str) -> None:
        """Redact an event as its sender."""
        event = await self._backend.event(room_id, event_id)
        if event is not None and not event.is_redacted:
            await self._try(
                room_id, self._backend.redact(room_id, event.sender, event_id, transaction_id=transaction_id)
            )

    async def send_once(self, room_id: str, sender: str, subject: str, text: Text) -> None:
        """Send a notice about `subject` only once to a room, even if several callers try it at the same
        time."""
        async with self._once.hold(room_id):
            async with self._database.transaction(readonly=True) as connection:
                if await people.is_notice_sent(connection, room_id, subject):
                    return
            await self.send(room_id, sender, content_of(text, Kind.NOTICE), f"once/{subject}")
            async with self._database.transaction() as connection:
                await people.insert_sent_notice(connection, room_id, subject)

    async def notify_encrypted(self, room_id: str, candidates: Sequence[str]) -> None:
        """Tell people once that agents cannot read messages in this room."""
        sender = await self.find_sender(room_id, candidates)
        if sender is not None:
            await self.send_once(room_id, sender, ENCRYPTED, Text.of(CANNOT_READ))

    async def _membership(self, room_id: str, user: str) -> str | None:
        try:
            return await self._backend.membership(room_id, user)
        except MatrixError:
            return None

    async def _try(self, room_id: str, send: Awaitable[str]) -> str | None:
        try:
            return await send
        except MatrixError as refused:
            if refused.status == 429 or refused.status >= 500:
                raise
            self._report(f"An event could not be sent to the room {room_id}.", refused)
            return None


def relate_to_request(content: Mapping[str, Any], *, request: str, root: str | None) -> dict[str, Any]:
    """Make the content a reply to the request: in the thread of `root`, or in the room if that is None."""
    if root is None:
        return reply(request, content)
    # A message in a thread needs no explicit reply to the root of the thread.
    return in_thread(root, content, replies_to=None if request == root else request)


LONGEST_REASON: Final = 2_000
MAX_PEOPLE: Final = 10_000
"""Maximum number of people whose request rates are tracked."""


class Responder:
    """Replies to people in the room of their message, and checks their permissions and request rates."""

    def __init__(self, settings: PeopleSettings, messenger: Messenger, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._messenger = messenger
        self._monotonic = monotonic
        self._requests: Buckets[str] = Buckets(MAX_PEOPLE)
        self._refusals: Buckets[str] = Buckets(MAX_PEOPLE)

    def permission_refusal(self, event: RoomEvent, needed: Level) -> str | None:
        """Return why the sender lacks the level `needed`, or None."""
        return self._settings.rights.of(event.sender).refusal(needed)

    def rate_refusal(self, event: RoomEvent) -> str | None:
        """Count a request of the sender, and return the refusal if it exceeds the request rate."""
        excess = self._requests.take(event.sender, self._settings.request_rate, self._monotonic())
        if excess is None:
            return None
        return f"You send too many requests. Try again in {-(-excess.retry_after_ms // 1000)} s."

    async def refuse(self, event: RoomEvent, room: RoomContext, reason: str, about: TaskMessages | None = None) -> None:
        """Reply with a refusal, unless the sender has received too many refusals."""
        if self._refusals.take(event.sender, self._settings.refusal_rate, self._monotonic()) is None:
            # The reason may contain names that peers have chosen.
            await self.reply(event, room, Text.of(one_line(reason, LONGEST_REASON)), "refusal", about)

    async def reply(
        self, event: RoomEvent, room: RoomContext, text: Text, subject: str, about: TaskMessages | None = None
    ) -> None:
        """Reply to an event in its room and mention its sender. `about` is the task that the reply concerns.
        `subject` distinguishes several replies to one event."""
        sender = await self._messenger.find_sender(event.room_id, room.senders)
        if sender is None:
            return
        content = content_of(text, Kind.NOTICE, mentions=(event.sender,))
        root = about.root if about is not None and about.is_threaded else parse_message(event.content).thread
        # A reaction or an edit cannot be replied to; the reply refers to the task's request instead.
        is_message = event.type == MESSAGE and parse_message(event.content).replaces is None
        request = event.event_id if is_message or about is None else about.request
        related_content = relate_to_request(content, request=request, root=root)
        await self._messenger.send(event.room_id, sender, related_content, f"{subject}/{event.event_id}")
