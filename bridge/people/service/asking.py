"""Gives agents the work that people ask for."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bridge.address import AgentAddress
from bridge.matrix_side import MatrixSide
from bridge.people.asking import request_for
from bridge.people.hearing import Asked
from bridge.people.permissions import Level
from bridge.people.place import Place
from bridge.people.requester import requester
from bridge.people.service.shown_tasks import NOT_YET, ShownTasks
from bridge.people.service.telling import Telling
from bridge.people.thread import Shown
from bridge.people.thread_context import context_of
from bridge.service.task_desk import TaskDesk
from bridge.task_error import TaskError
from federation.room_event import RoomEvent
from storage.database import Database

MOST_OF_THREAD: Final = 1_000
MOST_OF_CHAT: Final = 30
PATIENCE: Final = 5.0
"""Seconds for reading what was said before, which another server may have."""


class Asking:
    def __init__(
        self,
        side: MatrixSide,
        database: Database,
        desk: TaskDesk,
        node_id: str,
        *,
        tasks: ShownTasks,
        telling: Telling,
        now_ms: Callable[[], int],
    ) -> None:
        self._side = side
        self._database = database
        self._desk = desk
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
        """The task and the thread in which it is shown are one commit, and most often one statement."""
        made = request_for(
            agent,
            asked.prompt,
            event_id=event.event_id,
            room_id=event.room_id,
            user=event.sender,
            requester=address,
            context=context,
        )
        shown = Shown(
            task=NOT_YET,
            key=made.key,
            agent=agent,
            room_id=event.room_id,
            root=asked.root or request,
            request=request,
            asked_by=event.sender,
            is_threaded=asked.root is not None,
            made_at=self._now_ms(),
        )
        submitted = await self._desk.take_in_with(made, self._tasks.with_thread(shown))
        if submitted is None:
            async with self._database.transaction() as connection:
                submitted = await self._desk.take_in(connection, made, is_allowed=True)
                if submitted.task is not None:
                    await self._tasks.insert(connection, replace(shown, task=submitted.task.id))
            self._desk.go_on(submitted)
        return submitted.refusal

    async def _context(self, room_id: str, asked: Asked, request: str) -> str:
        """What was said before, as far as it can be had at once."""
        try:
            async with asyncio.timeout(PATIENCE):
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
