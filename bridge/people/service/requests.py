"""Submits the tasks that people request, and cancels them on a reaction, a message, an edit or a
redaction."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.matrix.backend import MatrixBackend
from bridge.people.interpret import AgentRequest, RequestEdit, task_request
from bridge.people.message import MESSAGE, NOT_STARTED, TaskMessages, conversation_context
from bridge.people.permissions import Level
from bridge.people.requester import requester_address, requesting_person
from bridge.people.room import RoomContext
from bridge.people.service.messenger import Responder
from bridge.people.service.task_threads import TaskMessagesStore
from bridge.tasks.errors import TaskError
from bridge.tasks.service import TaskService
from federation.events.room_event import RoomEvent
from storage.database import Database

MAX_OF_THREAD: Final = 1_000
MAX_OF_CHAT: Final = 30
CONTEXT_TIMEOUT: Final = 5.0
"""Seconds for reading earlier messages, which may be on another server."""


class RequestHandler:
    """Submits the task requests in people's messages."""

    def __init__(
        self,
        backend: MatrixBackend,
        database: Database,
        task_service: TaskService,
        node_id: str,
        *,
        tasks: TaskMessagesStore,
        responder: Responder,
        now_ms: Callable[[], int],
    ) -> None:
        self._backend = backend
        self._database = database
        self._task_service = task_service
        self._node_id = node_id
        self._tasks = tasks
        self._responder = responder
        self._now_ms = now_ms

    async def submit(
        self, event: RoomEvent, room: RoomContext, agent_request: AgentRequest, request: str | None = None
    ) -> None:
        """Submit a task to each addressed agent, or reply with a refusal. `request` is the original message
        if `event` is an edit of it."""
        refusal = self._responder.permission_refusal(event, Level.WORK) or self._responder.rate_refusal(event)
        address = requester_address(event.sender, self._node_id)
        if not isinstance(address, AgentAddress):
            refusal = refusal or f"Your user id is too long to be part of an address. {address.reason}"
        if refusal is not None or not isinstance(address, AgentAddress):
            await self._responder.refuse(event, room, refusal or "")
            return
        request = request or event.event_id
        context = await self._context(event.room_id, agent_request, request) if agent_request.continues else ""
        for agent in agent_request.agents:
            error = await self._submit_task(event, agent_request, agent, address, request, context)
            if error is not None:
                reason = f"{error.reason} ({error.code}) {error.code.advice}"
                await self._responder.refuse(event, room, reason)

    async def _submit_task(
        self,
        event: RoomEvent,
        agent_request: AgentRequest,
        agent: AgentAddress,
        address: AgentAddress,
        request: str,
        context: str,
    ) -> TaskError | None:
        """Commit the task together with its thread."""
        new_task = task_request(
            agent,
            agent_request.prompt,
            event_id=event.event_id,
            room_id=event.room_id,
            user=event.sender,
            requester=address,
            context=context,
        )
        async with self._database.transaction() as connection:
            submitted = await self._task_service.accept(connection, new_task)
            if submitted.task is not None:
                messages = TaskMessages(
                    task=submitted.task.id,
                    key=new_task.key,
                    agent=agent,
                    room_id=event.room_id,
                    root=agent_request.root or request,
                    request=request,
                    asked_by=event.sender,
                    is_threaded=agent_request.root is not None,
                    made_at=self._now_ms(),
                )
                await self._tasks.insert(connection, messages)
        self._task_service.committed(submitted)
        return submitted.refusal

    async def _context(self, room_id: str, agent_request: AgentRequest, request: str) -> str:
        """Return earlier messages, or nothing if they cannot be read within `CONTEXT_TIMEOUT`."""
        try:
            async with asyncio.timeout(CONTEXT_TIMEOUT):
                earlier = await self._earlier_messages(room_id, agent_request.root)
                return conversation_context(earlier, request)
        except TimeoutError:
            return ""

    async def _earlier_messages(self, room_id: str, root: str | None) -> list[RoomEvent]:
        if root is None:
            page = await self._backend.messages(room_id, limit=MAX_OF_CHAT)
            return list(reversed(page.events))
        first = await self._backend.event(room_id, root)
        thread = await self._backend.relations(room_id, root, "m.thread", limit=MAX_OF_THREAD)
        return [*([] if first is None else [first]), *thread]


class WithdrawalHandler:
    """Cancels tasks when people cancel, edit or redact their requests."""

    def __init__(
        self,
        backend: MatrixBackend,
        task_service: TaskService,
        *,
        tasks: TaskMessagesStore,
        responder: Responder,
        request_handler: RequestHandler,
    ) -> None:
        self._backend = backend
        self._task_service = task_service
        self._tasks = tasks
        self._responder = responder
        self._request_handler = request_handler

    async def cancel(self, event: RoomEvent, room: RoomContext, tasks: Sequence[TaskMessages]) -> None:
        """Cancel the tasks that belong to the sender; an administrator can cancel any."""
        refusal = None
        nothing = True
        administrator_refusal = self._responder.permission_refusal(event, Level.ADMINISTER)
        for messages in tasks:
            task = await self._task_service.task(messages.key)
            if task is None or task.state.is_final:
                # An event that is handled again after a kill finds the task that it has cancelled itself.
                nothing = nothing and not await self._tasks.is_cancelled_by(messages.task, event.event_id)
                continue
            nothing = False
            person = requesting_person(task.request, messages.key.node_id)
            if event.sender in (messages.asked_by, person) or administrator_refusal is None:
                await self._tasks.set_cancelled(messages.task, event.event_id)
                await self._task_service.cancel(messages.key, event.sender)
            else:
                refusal = administrator_refusal
        if refusal is not None:
            await self._responder.refuse(event, room, refusal, tasks[0])
        elif nothing and event.type == MESSAGE:
            await self._responder.refuse(event, room, "There is nothing to cancel any more.", tasks[0])

    async def edit(
        self, event: RoomEvent, room: RoomContext, tasks: Sequence[TaskMessages], request_edit: RequestEdit
    ) -> None:
        """ "Edits […] of the request before it began replace it": cancel the old task, and submit the new
        one."""
        own = [
            messages
            for messages in tasks
            if messages.request == request_edit.request and messages.asked_by == event.sender
        ]
        withdrawn, has_started = [], False
        for messages in own:
            if await self._withdraw(messages, event, "The request was edited."):
                withdrawn.append(messages.agent)
            else:
                has_started = has_started or await self._is_running(messages)
        if has_started:
            too_late = "The task has already started with the previous text. React with ❌ to cancel it."
            await self._responder.refuse(event, room, too_late, own[0])
        new_request = request_edit.new_request
        if new_request is None:
            return
        previous = {messages.agent for messages in own}
        agents = tuple(agent for agent in new_request.agents if agent in withdrawn or agent not in previous)
        if agents:
            remaining = AgentRequest(agents, new_request.prompt, new_request.root, new_request.continues)
            await self._request_handler.submit(event, room, remaining, request_edit.request)

    async def redact(self, event: RoomEvent, event_id: str, tasks: Sequence[TaskMessages]) -> None:
        """Withdraw the tasks of a redacted request, if the room has accepted the redaction."""
        request = await self._backend.event(event.room_id, event_id)
        if request is None or not request.is_redacted:
            return
        for messages in tasks:
            if messages.request == event_id:
                await self._withdraw(messages, event, "The request was deleted.")

    async def _withdraw(self, messages: TaskMessages, event: RoomEvent, reason: str) -> bool:
        """Cancel the task if it has not started, and return whether it was withdrawn by this event. The
        withdrawal is stored first, so that an event that is handled again after a kill finds it."""
        if messages.withdrawn_by is None:
            task = await self._task_service.task(messages.key)
            if task is None or task.state not in NOT_STARTED:
                return False
        if not await self._tasks.withdraw(messages.task, event.event_id):
            return False
        await self._task_service.cancel(messages.key, event.sender, reason)
        return True

    async def _is_running(self, messages: TaskMessages) -> bool:
        task = await self._task_service.task(messages.key)
        return task is not None and not task.state.is_final and messages.withdrawn_by is None
