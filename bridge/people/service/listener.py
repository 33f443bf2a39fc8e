"""Listens to what people say in rooms, and has done what follows from it.

What follows is idempotent: an event that is read again after a kill is the same task, and what is said about
it is the same message.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bridge.people.hearing import (
    Asked,
    Cancelled,
    Ears,
    Edited,
    NotAsked,
    Ordered,
    TakenBack,
    Unreadable,
    related,
    understand,
)
from bridge.people.message import ENCRYPTED, ENCRYPTION, MEMBER, MESSAGE, REACTION, REDACTION
from bridge.people.permissions import Level
from bridge.people.place import Kind, Place
from bridge.people.service.asking import Asking
from bridge.people.service.command_desk import CommandDesk
from bridge.people.service.room_memory import RoomMemory
from bridge.people.service.shown_tasks import ShownTasks
from bridge.people.service.telling import Telling
from bridge.people.service.voice import Voice
from bridge.people.service.withdrawing import Withdrawing
from bridge.people.thread import Shown
from bridge.service.session import Report
from federation.room_event import EventHead, RoomEvent, StreamedEvent
from storage.connecting import ConnectionLost

IsForOthers = Callable[[RoomEvent], Awaitable[bool]]
"""Whether something is said to another part of the node, which answers it."""
HEARD: Final = frozenset({MESSAGE, REACTION, REDACTION, ENCRYPTED, ENCRYPTION})


async def nobody_elses(event: RoomEvent) -> bool:
    """There is no such part."""
    return False


class Listener:
    def __init__(
        self,
        ears: Ears,
        *,
        memory: RoomMemory,
        tasks: ShownTasks,
        voice: Voice,
        telling: Telling,
        asking: Asking,
        withdrawing: Withdrawing,
        commands: CommandDesk,
        is_for_others: IsForOthers,
        now_ms: Callable[[], int],
        report: Report,
    ) -> None:
        self._ears = ears
        self._memory = memory
        self._tasks = tasks
        self._voice = voice
        self._telling = telling
        self._asking = asking
        self._withdrawing = withdrawing
        self._commands = commands
        self._is_for_others = is_for_others
        self._now_ms = now_ms
        self._report = report

    def concerns(self, event: EventHead) -> bool:
        """What others say; and who comes and goes, by which it is told what kind of room it is."""
        if event.type == MEMBER:
            return True
        return event.type in HEARD and not self._ears.is_ours(event.sender)

    async def handle(self, entries: Sequence[StreamedEvent]) -> None:
        for entry in entries:
            self._memory.heard(entry.event)
            if entry.kind != "timeline" or self._ears.is_ours(entry.event.sender):
                continue
            try:
                await self._hear(entry.event)
            except ConnectionLost:
                raise
            except Exception as error:
                # What was not foreseen in one event must not hold up all that follow.
                self._report(f"The event {entry.event.event_id} was not worked on.", error)

    async def _hear(self, event: RoomEvent) -> None:
        if event.type not in HEARD:
            return
        place = await self._memory.place(event.room_id)
        if place is None or place.kind is Kind.FOREIGN:
            return
        if event.type == MESSAGE and await self._is_for_others(event):
            return
        tasks: list[Shown] = []
        for target in related(event):
            tasks = tasks or await self._tasks.find(event.room_id, target)
        match understand(event, place, tasks, self._ears, self._now_ms()):
            case Asked() as asked:
                await self._asking.ask(event, place, asked)
            case NotAsked(reason):
                reason = self._telling.not_allowed(event, Level.WORK) or reason
                await self._telling.refuse(event, place, reason)
            case Ordered() as ordered:
                await self._obey(event, place, ordered)
            case Cancelled(meant):
                await self._withdrawing.cancel(event, place, meant)
            case Edited() as edited:
                await self._withdrawing.edit(event, place, tasks, edited)
            case TakenBack(event_id):
                await self._withdrawing.take_back(event, event_id, tasks)
            case Unreadable():
                await self._voice.cannot_read(event.room_id, place.speakers)

    async def _obey(self, event: RoomEvent, place: Place, ordered: Ordered) -> None:
        refusal = self._commands.refusal(ordered.parsed, event.sender) or self._telling.too_much(event)
        if refusal is not None:
            await self._telling.refuse(event, place, refusal)
            return
        prefix = "" if place.kind is Kind.DESK else f"{self._ears.prefix} "
        answer = await self._commands.answer(ordered.parsed, event.sender, prefix=prefix)
        await self._telling.tell(event, place, answer, "answer")
