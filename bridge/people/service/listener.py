"""Reads people's events in rooms and passes them to the part that handles them.

Handling is idempotent: an event that is read again after a kill belongs to the same task, and replies to it
are the same events.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from bridge.people.interpret import (
    AgentRequest,
    Cancellation,
    EncryptedMessage,
    InterpreterContext,
    InvalidRequest,
    NodeCommand,
    RequestEdit,
    RequestRedaction,
    interpret,
    related_events,
)
from bridge.people.message import ENCRYPTED, ENCRYPTION, MEMBER, MESSAGE, REACTION, REDACTION, TaskMessages
from bridge.people.permissions import Level
from bridge.people.room import RoomContext, RoomKind
from bridge.people.service.commands import CommandService
from bridge.people.service.messenger import Messenger, Responder
from bridge.people.service.requests import RequestHandler, WithdrawalHandler
from bridge.people.service.rooms import RoomContextCache
from bridge.people.service.task_threads import TaskMessagesStore
from federation.events.room_event import RoomEvent, StreamedEvent

IsHandledElsewhere = Callable[[RoomEvent], Awaitable[bool]]
"""Whether another part of the node, such as a connector, answers a message."""
HANDLED_TYPES: Final = frozenset({MESSAGE, REACTION, REDACTION, ENCRYPTED, ENCRYPTION})


async def never_handled_elsewhere(event: RoomEvent) -> bool:
    """No other part of the node answers messages."""
    return False


class Listener:
    """Handles the events that people send to rooms."""

    def __init__(
        self,
        context: InterpreterContext,
        *,
        contexts: RoomContextCache,
        tasks: TaskMessagesStore,
        messenger: Messenger,
        responder: Responder,
        request_handler: RequestHandler,
        withdrawal_handler: WithdrawalHandler,
        commands: CommandService,
        is_handled_elsewhere: IsHandledElsewhere,
        now_ms: Callable[[], int],
    ) -> None:
        self._context = context
        self._contexts = contexts
        self._tasks = tasks
        self._messenger = messenger
        self._responder = responder
        self._request_handler = request_handler
        self._withdrawal_handler = withdrawal_handler
        self._commands = commands
        self._is_handled_elsewhere = is_handled_elsewhere
        self._now_ms = now_ms

    def concerns(self, event: RoomEvent) -> bool:
        """Whether to read the event: events of remote users, and all membership events, which may change the
        kind of a room."""
        if event.type == MEMBER:
            return True
        return event.type in HANDLED_TYPES and not self._context.is_local(event.sender)

    def queue_of(self, entry: StreamedEvent) -> str | None:
        """Return the queue of an event: events of a room are handled in their order."""
        event = entry.event
        self._contexts.handle(event)
        is_handled = (
            entry.kind == "timeline" and event.type in HANDLED_TYPES and not self._context.is_local(event.sender)
        )
        return event.room_id if is_handled else None

    async def handle(self, entry: StreamedEvent) -> None:
        event = entry.event
        room = await self._contexts.context(event.room_id)
        if room is None or room.kind is RoomKind.REMOTE_AGENTS:
            return
        if event.type == MESSAGE and await self._is_handled_elsewhere(event):
            return
        tasks: list[TaskMessages] = []
        for target in related_events(event):
            tasks = tasks or await self._tasks.find(event.room_id, target)
        match interpret(event, room, tasks, self._context, self._now_ms()):
            case AgentRequest() as request:
                await self._request_handler.submit(event, room, request)
            case InvalidRequest(reason):
                reason = self._responder.permission_refusal(event, Level.WORK) or reason
                await self._responder.refuse(event, room, reason)
            case NodeCommand() as command:
                await self._execute(event, room, command)
            case Cancellation(cancelled):
                await self._withdrawal_handler.cancel(event, room, cancelled)
            case RequestEdit() as request_edit:
                await self._withdrawal_handler.edit(event, room, tasks, request_edit)
            case RequestRedaction(event_id):
                await self._withdrawal_handler.redact(event, event_id, tasks)
            case EncryptedMessage():
                await self._messenger.notify_encrypted(event.room_id, room.senders)

    async def _execute(self, event: RoomEvent, room: RoomContext, command: NodeCommand) -> None:
        refusal = self._commands.refusal(command.parsed, event.sender) or self._responder.rate_refusal(event)
        if refusal is not None:
            await self._responder.refuse(event, room, refusal)
            return
        prefix = "" if room.kind is RoomKind.NODE_CHAT else f"{self._context.prefix} "
        answer = await self._commands.answer(command.parsed, event.sender, prefix=prefix)
        await self._responder.reply(event, room, answer, "answer")
