"""Says things in rooms as users of this node.

What is said bears a transaction id made from what it is about: after a kill it is said again, and is the same
event. What a room does not take is told to the operator, and is no reason to try again.

Answers people where they have spoken: what they asked for, or why not.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from bridge.matrix.backend import MatrixBackend
from bridge.observability.report import Report
from bridge.people.message import MESSAGE, REACTION, Shown, read
from bridge.people.permissions import Level
from bridge.people.place import Place
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
    "This room is encrypted, and agents cannot read what is said in it: write to them in a room that is not."
)


class Voice:
    def __init__(self, side: MatrixBackend, database: Database, node_user: str, report: Report) -> None:
        self._side = side
        self._database = database
        self._node_user = node_user
        self._report = report
        self._once: KeyedLock[str] = KeyedLock()

    async def speaker(self, room_id: str, wanted: Sequence[str | None]) -> str | None:
        """The first of these users who is in the room."""
        for user in dict.fromkeys(wanted):
            if user is not None and await self._membership(room_id, user) == "join":
                return user
        return None

    async def say(
        self, room_id: str, speaker: str, content: Mapping[str, Any], name: str | None = None
    ) -> str | None:
        """The event; None if the room does not take it. `name` is what makes it the same one again."""
        return await self._try(
            room_id, self._side.send(room_id, speaker, MESSAGE, content, transaction_id=name)
        )

    async def edit(
        self, room_id: str, event_id: str, content: Mapping[str, Any], name: str | None = None
    ) -> str | None:
        """As whoever said it."""
        said = await self._side.event(room_id, event_id)
        if said is None or said.is_redacted:
            return None
        return await self.say(room_id, said.sender, edit(event_id, content), name)

    async def react(self, room_id: str, speaker: str, event_id: str, key: str, name: str) -> str | None:
        content = reaction(event_id, key)
        return await self._try(
            room_id, self._side.send(room_id, speaker, REACTION, content, transaction_id=name)
        )

    async def take_back(self, room_id: str, event_id: str, name: str) -> None:
        """As whoever said it."""
        said = await self._side.event(room_id, event_id)
        if said is not None and not said.is_redacted:
            await self._try(room_id, self._side.redact(room_id, said.sender, event_id, transaction_id=name))

    async def say_once(self, room_id: str, speaker: str, what: str, text: Text) -> None:
        """Several may find out at the same moment that it has to be said."""
        async with self._once.hold(room_id):
            async with self._database.transaction(readonly=True) as connection:
                if await people.is_notice_sent(connection, room_id, what):
                    return
            await self.say(room_id, speaker, content_of(text, Kind.WORD), f"once/{what}")
            async with self._database.transaction() as connection:
                await people.insert_sent_notice(connection, room_id, what)

    async def cannot_read(self, room_id: str, speakers: Sequence[str]) -> None:
        speaker = await self.speaker(room_id, speakers)
        if speaker is not None:
            await self.say_once(room_id, speaker, ENCRYPTED, Text.of(CANNOT_READ))

    async def _membership(self, room_id: str, user: str) -> str | None:
        try:
            return await self._side.membership(room_id, user)
        except MatrixError:
            return None

    async def _try(self, room_id: str, act: Awaitable[str]) -> str | None:
        try:
            return await act
        except MatrixError as refused:
            if refused.status == 429 or refused.status >= 500:
                raise
            self._report(f"Something could not be said in the room {room_id}.", refused)
            return None


def beside(content: Mapping[str, Any], *, request: str, root: str | None) -> dict[str, Any]:
    """As an answer to the request: in the thread, or, without one, in the room itself."""
    if root is None:
        return reply(request, content)
    # To what begins the thread nothing in it is an answer of its own.
    return in_thread(root, content, replies_to=None if request == root else request)


LONGEST_REASON: Final = 2_000
MOST_PEOPLE: Final = 10_000
"""Who are told apart by how much they ask for."""


class Telling:
    def __init__(self, settings: PeopleSettings, voice: Voice, monotonic: Callable[[], float]) -> None:
        self._settings = settings
        self._voice = voice
        self._monotonic = monotonic
        self._asked: Buckets[str] = Buckets(MOST_PEOPLE)
        self._refused: Buckets[str] = Buckets(MOST_PEOPLE)

    def not_allowed(self, event: RoomEvent, needed: Level) -> str | None:
        """Why whoever has said this may not do what takes this level."""
        return self._settings.rights.of(event.sender).refusal(needed)

    def too_much(self, event: RoomEvent) -> str | None:
        """One more is asked for, unless that is too much: then why."""
        excess = self._asked.take(event.sender, self._settings.of_person, self._monotonic())
        if excess is None:
            return None
        return f"You ask for too much at once. In {-(-excess.retry_after_ms // 1000)} s there is room again."

    async def refuse(self, event: RoomEvent, place: Place, reason: str, about: Shown | None = None) -> None:
        """Somebody who says the same again and again is not answered each time."""
        if self._refused.take(event.sender, self._settings.refusals, self._monotonic()) is None:
            # Names that peers have chosen may be part of it.
            await self.tell(event, place, Text.of(one_line(reason, LONGEST_REASON)), "refusal", about)

    async def tell(
        self, event: RoomEvent, place: Place, said: Text, what: str, about: Shown | None = None
    ) -> None:
        """Where it was asked, to whoever asked. `about` is the task that it is about."""
        speaker = await self._voice.speaker(event.room_id, place.speakers)
        if speaker is None:
            return
        content = content_of(said, Kind.WORD, mentions=(event.sender,))
        root = about.root if about is not None and about.is_threaded else read(event.content).thread
        # A reaction or an edit is nothing that could be answered.
        is_message = event.type == MESSAGE and read(event.content).replaces is None
        request = event.event_id if is_message or about is None else about.request
        related_content = beside(content, request=request, root=root)
        await self._voice.say(event.room_id, speaker, related_content, f"{what}/{event.event_id}")
