"""Listens to what people say in rooms, and has done what follows from it.

What follows is idempotent: an event that is read again after a kill is the same task, and what is said about
it is the same message.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from bridge.people.interpret import (
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
from bridge.people.message import ENCRYPTED, ENCRYPTION, MEMBER, MESSAGE, REACTION, REDACTION, Shown
from bridge.people.permissions import Level
from bridge.people.place import Kind, Place
from bridge.people.service.commands import CommandDesk
from bridge.people.service.messenger import Telling, Voice
from bridge.people.service.requests import Asking, Withdrawing
from bridge.people.service.rooms import RoomMemory
from bridge.people.service.task_threads import ShownTasks
from federation.events.room_event import RoomEvent, StreamedEvent

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

    def concerns(self, event: RoomEvent) -> bool:
        """What others say; and who comes and goes, by which it is told what kind of room it is."""
        if event.type == MEMBER:
            return True
        return event.type in HEARD and not self._ears.is_ours(event.sender)

    def queue_of(self, entry: StreamedEvent) -> str | None:
        event = entry.event
        self._memory.heard(event)
        is_said = entry.kind == "timeline" and event.type in HEARD and not self._ears.is_ours(event.sender)
        return event.room_id if is_said else None

    async def handle(self, entry: StreamedEvent) -> None:
        event = entry.event
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
