"""Answers people where they have spoken: what they asked for, or why not."""

from collections.abc import Callable
from typing import Final

from bridge.people.cleaning import one_line
from bridge.people.message import MESSAGE, read
from bridge.people.permissions import Level
from bridge.people.place import Place
from bridge.people.service.voice import Voice, beside
from bridge.people.settings import PeopleSettings
from bridge.people.text import Kind, Text, content_of
from bridge.people.thread import Shown
from federation.peer_limits import Buckets
from federation.room_event import RoomEvent

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
