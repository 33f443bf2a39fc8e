"""Gives agents the work that people ask for.

Takes work back that people have asked for: by a reaction or a word, by an edit, by deleting it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.matrix.backend import MatrixBackend
from bridge.people.interpret import Asked, Edited, request_for
from bridge.people.message import MESSAGE, NOT_BEGUN, Shown, context_of
from bridge.people.permissions import Level
from bridge.people.place import Place
from bridge.people.requester import in_name_of, requester
from bridge.people.service.messenger import Telling
from bridge.people.service.task_threads import ShownTasks
from bridge.tasks.errors import TaskError
from bridge.tasks.service import TaskService
from federation.events.room_event import RoomEvent
from storage.database import Database

MOST_OF_THREAD: Final = 1_000
MOST_OF_CHAT: Final = 30
TIMEOUT: Final = 5.0
"""Seconds for reading what was said before, which another server may have."""


class Asking:
    def __init__(
        self,
        side: MatrixBackend,
        database: Database,
        task_service: TaskService,
        node_id: str,
        *,
        tasks: ShownTasks,
        telling: Telling,
        now_ms: Callable[[], int],
    ) -> None:
        self._side = side
        self._database = database
        self._task_service = task_service
        self._node_id = node_id
        self._tasks = tasks
        self._telling = telling
        self._now_ms = now_ms

    async def ask(self, event: RoomEvent, place: Place, asked: Asked, request: str | None = None) -> None:
        """`request` is the message that asks, if that is not the event itself but what it edits."""
        refusal = self._telling.not_allowed(event, Level.WORK) or self._telling.too_much(event)
        address = requester(event.sender, self._node_id)
        if not isinstance(address, AgentAddress):
            refusal = refusal or f"Your user id is too long to be part of an address. {address.reason}"
        if refusal is not None or not isinstance(address, AgentAddress):
            await self._telling.refuse(event, place, refusal or "")
            return
        request = request or event.event_id
        context = await self._context(event.room_id, asked, request) if asked.goes_on else ""
        for agent in asked.agents:
            error = await self._submit(event, asked, agent, address, request, context)
            if error is not None:
                await self._telling.refuse(event, place, f"{error.reason} ({error.code}) {error.code.advice}")

    async def _submit(
        self,
        event: RoomEvent,
        asked: Asked,
        agent: AgentAddress,
        address: AgentAddress,
        request: str,
        context: str,
    ) -> TaskError | None:
        """The task and the thread in which it is shown are one commit."""
        made = request_for(
            agent,
            asked.prompt,
            event_id=event.event_id,
            room_id=event.room_id,
            user=event.sender,
            requester=address,
            context=context,
        )
        async with self._database.transaction() as connection:
            submitted = await self._task_service.accept(connection, made)
            if submitted.task is not None:
                shown = Shown(
                    task=submitted.task.id,
                    key=made.key,
                    agent=agent,
                    room_id=event.room_id,
                    root=asked.root or request,
                    request=request,
                    asked_by=event.sender,
                    is_threaded=asked.root is not None,
                    made_at=self._now_ms(),
                )
                await self._tasks.insert(connection, shown)
        self._task_service.committed(submitted)
        return submitted.refusal

    async def _context(self, room_id: str, asked: Asked, request: str) -> str:
        """What was said before, as far as it can be had at once."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return context_of(await self._said_before(room_id, asked.root), request)
        except TimeoutError:
            return ""

    async def _said_before(self, room_id: str, root: str | None) -> list[RoomEvent]:
        if root is None:
            page = await self._side.messages(room_id, limit=MOST_OF_CHAT)
            return list(reversed(page.events))
        begin = await self._side.event(room_id, root)
        thread = await self._side.relations(room_id, root, "m.thread", limit=MOST_OF_THREAD)
        return [*([] if begin is None else [begin]), *thread]


class Withdrawing:
    def __init__(
        self,
        side: MatrixBackend,
        task_service: TaskService,
        *,
        tasks: ShownTasks,
        telling: Telling,
        asking: Asking,
    ) -> None:
        self._side = side
        self._task_service = task_service
        self._tasks = tasks
        self._telling = telling
        self._asking = asking

    async def cancel(self, event: RoomEvent, place: Place, meant: Sequence[Shown]) -> None:
        refusal = None
        nothing = True
        administers = self._telling.not_allowed(event, Level.ADMINISTER)
        for shown in meant:
            task = await self._task_service.task(shown.key)
            if task is None or task.state.is_final:
                # Read again after a kill, a word finds what it has taken back itself.
                nothing = nothing and not await self._tasks.is_cancelled_by(shown.task, event.event_id)
                continue
            nothing = False
            in_name = in_name_of(task.request, shown.key.node_id)
            if event.sender in (shown.asked_by, in_name) or administers is None:
                await self._tasks.set_cancelled(shown.task, event.event_id)
                await self._task_service.cancel(shown.key, event.sender)
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
            task = await self._task_service.task(shown.key)
            if task is None or task.state not in NOT_BEGUN:
                return False
        if not await self._tasks.withdraw(shown.task, event.event_id):
            return False
        await self._task_service.cancel(shown.key, event.sender, reason)
        return True

    async def _is_running(self, shown: Shown) -> bool:
        task = await self._task_service.task(shown.key)
        return task is not None and not task.state.is_final and shown.withdrawn_by is None
