"""Takes work back that people have asked for: by a reaction or a word, by an edit, by deleting it."""

from collections.abc import Sequence

from bridge.matrix_side import MatrixSide
from bridge.people.hearing import Asked, Edited
from bridge.people.in_name_of import in_name_of
from bridge.people.message import MESSAGE
from bridge.people.permissions import Level
from bridge.people.place import Place
from bridge.people.service.asking import Asking
from bridge.people.service.shown_tasks import ShownTasks
from bridge.people.service.telling import Telling
from bridge.people.thread import NOT_BEGUN, Shown
from bridge.service.task_desk import TaskDesk
from federation.room_event import RoomEvent


class Withdrawing:
    def __init__(
        self, side: MatrixSide, desk: TaskDesk, *, tasks: ShownTasks, telling: Telling, asking: Asking
    ) -> None:
        self._side = side
        self._desk = desk
        self._tasks = tasks
        self._telling = telling
        self._asking = asking

    async def cancel(self, event: RoomEvent, place: Place, meant: Sequence[Shown]) -> None:
        refusal = None
        nothing = True
        administers = self._telling.not_allowed(event, Level.ADMINISTER)
        for shown in meant:
            task = await self._desk.task(shown.key)
            if task is None or task.state.is_final:
                # Read again after a kill, a word finds what it has taken back itself.
                nothing = nothing and not await self._tasks.is_cancelled_by(shown.task, event.event_id)
                continue
            nothing = False
            in_name = in_name_of(task.request, shown.key.node_id)
            if event.sender in (shown.asked_by, in_name) or administers is None:
                await self._tasks.set_cancelled(shown.task, event.event_id)
                await self._desk.cancel(shown.key, event.sender)
            else:
                refusal = administers
        if refusal is not None:
            await self._telling.refuse(event, place, refusal, meant[0])
        elif nothing and event.type == MESSAGE:
            await self._telling.refuse(event, place, "There is nothing to take back any more.", meant[0])

    async def edit(self, event: RoomEvent, place: Place, tasks: Sequence[Shown], edited: Edited) -> None:
        """ "Edits […] of the request before it began replace it": the old one is taken back, and the new one
        asked for."""
        mine = [task for task in tasks if task.request == edited.request and task.asked_by == event.sender]
        withdrawn, begun = [], False
        for shown in mine:
            if await self._withdraw(shown, event, "The request was edited."):
                withdrawn.append(shown.agent)
            else:
                begun = begun or await self._is_running(shown)
        if begun:
            too_late = "It has been begun already, as it was. React with ❌ to take it back."
            await self._telling.refuse(event, place, too_late, mine[0])
        if edited.asked is None:
            return
        before = {shown.agent for shown in mine}
        agents = tuple(one for one in edited.asked.agents if one in withdrawn or one not in before)
        if agents:
            asked = Asked(agents, edited.asked.prompt, edited.asked.root, edited.asked.goes_on)
            await self._asking.ask(event, place, asked, edited.request)

    async def take_back(self, event: RoomEvent, event_id: str, tasks: Sequence[Shown]) -> None:
        """Whether a redaction holds, the room decides."""
        said = await self._side.event(event.room_id, event_id)
        if said is None or not said.is_redacted:
            return
        for shown in tasks:
            if shown.request == event_id:
                await self._withdraw(shown, event, "The request was deleted.")

    async def _withdraw(self, shown: Shown, event: RoomEvent, reason: str) -> bool:
        """Whether it is taken back, because it was not begun. Written down first: read again after a kill,
        the event finds what it has taken back itself."""
        if shown.withdrawn_by is None:
            task = await self._desk.task(shown.key)
            if task is None or task.state not in NOT_BEGUN:
                return False
        if not await self._tasks.withdraw(shown.task, event.event_id):
            return False
        await self._desk.cancel(shown.key, event.sender, reason)
        return True

    async def _is_running(self, shown: Shown) -> bool:
        task = await self._desk.task(shown.key)
        return task is not None and not task.state.is_final and shown.withdrawn_by is None
