"""Calls of tools by `!call` messages in the rooms of offices: reads the messages, makes the calls and
replies.

Only people can call tools in this way, and only with messages of their own: agents' messages, edits and
messages sent in a person's name do not count.

A message is recorded before its tool is called. If it is read again after a kill, the call is not repeated:
the reply comes from the call log, or says that the outcome is not known.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from cachetools import LRUCache

from appservice.people.double_puppets import has_source_mark
from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.offices.calls.chat_command import (
    PREFIX,
    CallCommand,
    ChatCommand,
    HelpCommand,
    InvalidCommand,
    parse,
    strip_prefix,
)
from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.protocol.office import InvalidOfficeName, parse_office_name
from bridge.connectors.offices.rooms.call_events import (
    INTERRUPTED,
    NOT_MADE,
    TOO_OLD,
    answer_text,
    help_text,
    invalid_command_text,
    message_link,
)
from bridge.connectors.offices.rooms.office_room import OFFICE, room_key
from bridge.connectors.offices.rooms.record_rows import read_body, read_call
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.people.message import MESSAGE, parse_message
from bridge.people.permissions import Level
from bridge.people.room import RoomContext, RoomKind
from bridge.people.service.event_inbox import EventInbox
from bridge.people.service.identities import Identities
from bridge.people.service.messenger import Messenger, Responder
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import Text, is_from_palaver
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.offices import orders as office_orders
from storage.offices import records as office_records
from storage.offices.orders import OrderRow
from storage.rooms.aliases import fetch_created

MAX_AGE_MS: Final = 3_600_000


def may_be_command(event: RoomEvent, is_of_node: Callable[[str], bool]) -> bool:
    """A cheap filter before the content is read. `is_of_node` is true for users of this node."""
    return event.type == MESSAGE and not is_of_node(event.sender)


def command_line(event: RoomEvent, agent_of: Callable[[str], AgentAddress | None]) -> str | None:
    """The text behind `!call`; None if the event is no command. Edits, messages of agents of any node, and
    messages sent in a person's name are no commands."""
    body = event.content.get("body")
    # Most messages are no commands, so this comes before the expensive checks.
    if not isinstance(body, str) or PREFIX not in body.lower():
        return None
    if event.is_redacted or is_from_palaver(event.content) or has_source_mark(event.content):
        return None
    message = parse_message(event.content)
    if message.msgtype != "m.text" or message.replaces is not None or agent_of(event.sender) is not None:
        return None
    return strip_prefix(message.body)


def is_for_this_node(
    command: ChatCommand, office_id: str, local_computers: Collection[str], all_computers: Collection[str]
) -> bool:
    """Of the nodes that share an office, one executes each command: the node to which the Computer is
    connected, or the node that hosts the office if the command names no such Computer."""
    if isinstance(command, CallCommand) and command.computer in all_computers:
        return command.computer in local_computers
    name = parse_office_name(office_id, ())
    return isinstance(name, InvalidOfficeName) or name.server is None


def is_too_old(event: RoomEvent, now_ms: int) -> bool:
    """A message may arrive late or be read again; its sender may no longer want the call."""
    return event.origin_server_ts < now_ms - MAX_AGE_MS


def call_id_of(event_id: str) -> str:
    """Derived from the message, so that reading it again gives the same call."""
    return f"said-{sha256(event_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


POLL_INTERVAL: Final = 5.0
"""Seconds between two lookups of calls whose senders have not received a reply."""
GIVE_UP_MS: Final = 30_000
"""After this time a message whose call was never recorded is answered as interrupted."""
THREAD_TIMEOUT: Final = 3.0
"""Seconds to wait for the message of a call, to which the reply links."""
THREAD_POLL_INTERVAL: Final = 0.1
BATCH_SIZE: Final = 100
RETENTION_MS: Final = 90 * 24 * 3_600_000


def room_context(room_id: str, settings: PeopleSettings) -> RoomContext:
    """The node's own user sends messages there."""
    return RoomContext(room_id, RoomKind.OTHER, senders=(settings.node_user,))


class ChatCallReplies:
    """Replies to `!call` messages, including those that an earlier process has left without a reply.
    `is_running` returns whether this process is executing the command of a message. Between `start` and
    `close` it looks for calls without a reply."""

    def __init__(self, parts: RoomParts, responder: Responder, is_running: Callable[[str], bool]) -> None:
        self._parts = parts
        self._responder = responder
        self._is_running = is_running
        self._background = BackgroundTasks()

    def start(self) -> None:
        self._background.supervise("replies to calls of people", self._poll)

    async def close(self) -> None:
        await self._background.close()

    async def reply(self, event: RoomEvent, order: OrderRow, text: Text) -> None:
        await self._responder.reply(event, room_context(event.room_id, self._parts.settings), text, "answer")
        async with self._parts.database.transaction() as connection:
            await office_orders.mark_reported(connection, order.event_id)

    async def thread_link(self, room_id: str, call_id: str) -> str | None:
        """A link to the call's message, as soon as that has been sent; None if it takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(THREAD_TIMEOUT):
                while True:
                    async with self._parts.database.transaction(readonly=True) as connection:
                        if not await office_records.fetch_call(connection, call_id):
                            return None
                        call_event = await office_records.fetch_call_event(connection, call_id)
                    if call_event is not None:
                        return message_link(room_id, call_event)
                    await asyncio.sleep(THREAD_POLL_INTERVAL)
        return None

    # -- calls without a reply --

    async def _poll(self) -> None:
        while True:
            try:
                await self._reply_to_unanswered()
            except ConnectionLost:
                pass  # the next round tries again
            except Exception as error:
                self._parts.report("Failed to reply to people's calls.", error)
            await asyncio.sleep(POLL_INTERVAL)

    async def _reply_to_unanswered(self) -> None:
        now_ms = self._parts.now_ms()
        async with self._parts.database.transaction() as connection:
            unanswered = await office_orders.list_unreported(connection, BATCH_SIZE)
            await office_orders.prune(connection, now_ms - RETENTION_MS, BATCH_SIZE)
        for order in unanswered:
            if self._is_running(order.event_id):
                continue
            try:
                await self._reply_from_log(order, now_ms)
            except ConnectionLost:
                raise
            except Exception as error:
                # One failure must not hold up the replies to others.
                self._parts.report(f"Failed to reply to the call in {order.event_id}.", error)

    async def _reply_from_log(self, order: OrderRow, now_ms: int) -> None:
        async with self._parts.database.transaction(readonly=True) as connection:
            called = await office_records.fetch_call(connection, order.call_id)
            answered = await office_records.fetch_answer(connection, order.call_id)
        if answered is None and (called or now_ms < order.at_ms + GIVE_UP_MS):
            return  # another process of the node may be executing it
        text = Text.of(INTERRUPTED)
        if called and answered is not None:
            call, body = read_call(order.call_id, called[0].body, called[0].at_ms), read_body(answered)
            thread = await self.thread_link(order.room_id, order.call_id)
            text = answer_text(call.computer, call.tool_name, body["answer"], body["took_ms"], thread)
        try:
            event = await self._parts.backend.event(order.room_id, order.event_id)
        except MatrixError:
            event = None
        if event is not None:
            await self.reply(event, order, text)
            return
        # The message is no longer in the room, so there is no need to reply.
        async with self._parts.database.transaction() as connection:
            await office_orders.mark_reported(connection, order.event_id)


NAME: Final = "offices-orders"
MAX_ROOMS: Final = 10_000
CLOSE_TIMEOUT: Final = 2.0


def no_remote_office(room_id: str) -> str | None:
    """For a node that shares no offices with other nodes."""
    return None


class ChatCalls:
    """Reads `!call` messages between `start` and `close`. After `stop_reading`, running calls still receive a
    reply."""

    def __init__(
        self,
        parts: RoomParts,
        routes: RoutingTable,
        calls: DirectCalls,
        *,
        remote_office: Callable[[str], str | None] = no_remote_office,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`remote_office` returns the id of the other node's office to which a room belongs, or None."""
        self._parts = parts
        self._calls = calls
        self._remote_office = remote_office
        self._settings = parts.settings
        self._identities = Identities(parts.settings.names, routes)
        messenger = Messenger(parts.backend, parts.database, parts.settings.node_user, parts.report)
        self._responder = Responder(parts.settings, messenger, monotonic)
        self._offices: LRUCache[str, str] = LRUCache(MAX_ROOMS)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._background = BackgroundTasks()
        self._replies = ChatCallReplies(parts, self._responder, self._running.__contains__)
        self._inbox = EventInbox(
            parts.backend, parts.database, NAME, self._handle_entry, parts.report, wanted=self._concerns
        )

    def start(self) -> None:
        self._inbox.start()
        self._replies.start()

    async def stop_reading(self) -> None:
        """Later messages are read after the next start."""
        await self._inbox.close()

    async def close(self) -> None:
        await self.stop_reading()
        await self._replies.close()
        await self._background.drain(CLOSE_TIMEOUT)
        await self._background.close()

    async def is_command(self, event: RoomEvent) -> bool:
        """Whether the event is a `!call` message in the room of an office, valid or not."""
        if command_line(event, self._identities.agent_of) is None:
            return False
        return await self._office_of(event.room_id) is not None

    # -- events --

    def _concerns(self, event: RoomEvent) -> bool:
        return may_be_command(event, self._identities.is_local)

    async def _handle_entry(self, entry: StreamedEvent) -> None:
        if entry.kind == "timeline":
            await self._handle(entry.event)

    async def _handle(self, event: RoomEvent) -> None:
        line = command_line(event, self._identities.agent_of)
        office_id = None if line is None else await self._office_of(event.room_id)
        if line is None or office_id is None:
            return
        command = parse(line)
        if isinstance(command, CallCommand) and await self._is_known(event.event_id):
            return  # it has a reply or will receive one
        local, everywhere = self._calls.local_computers(office_id), self._calls.computers(office_id)
        if not is_for_this_node(command, office_id, local, everywhere):
            return
        level = Level.LOOK if isinstance(command, HelpCommand) else Level.WORK
        refusal = self._responder.permission_refusal(event, level)
        if refusal is None and is_too_old(event, self._parts.now_ms()):
            refusal = TOO_OLD
        refusal = refusal or self._responder.rate_refusal(event)
        if refusal is not None:
            await self._responder.refuse(event, self._place(event.room_id), refusal)
            return
        match command:
            case CallCommand():
                await self._accept(event, office_id, command)
            case HelpCommand():
                self._run(event.event_id, self._help(event, office_id))
            case InvalidCommand():
                text = invalid_command_text(command, self._calls.computers(office_id))
                await self._responder.reply(event, self._place(event.room_id), text, "refusal")

    async def _accept(self, event: RoomEvent, office_id: str, command: CallCommand) -> None:
        """Record the message before the tool is called."""
        order = OrderRow(event.event_id, event.room_id, call_id_of(event.event_id), self._parts.now_ms())
        async with self._parts.database.transaction() as connection:
            is_new = await office_orders.insert_order(connection, order)
        if is_new:
            self._run(event.event_id, self._execute(event, office_id, command, order))

    async def _is_known(self, event_id: str) -> bool:
        async with self._parts.database.transaction(readonly=True) as connection:
            return await office_orders.is_order_known(connection, event_id)

    async def _office_of(self, room_id: str) -> str | None:
        """The office to which a room belongs: one that this node has created or joined. The room's own state
        is not enough, since any user can create a room with such state."""
        known = self._offices.get(room_id) or self._remote_office(room_id)
        if known is not None:
            return known
        try:
            state = await self._parts.backend.state_event(room_id, OFFICE)
        except MatrixError:
            return None
        office_id = None if state is None else state.content.get("office_id")
        if not isinstance(office_id, str):
            return None
        async with self._parts.database.transaction(readonly=True) as connection:
            created = await fetch_created(connection, self._settings.names.node_user, room_key(office_id))
        if created != room_id:
            return None
        self._offices[room_id] = office_id
        return office_id

    # -- execution --

    def _run(self, event_id: str, work: Coroutine[Any, Any, None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except ConnectionLost:
                pass  # the reply is sent later
            except Exception as error:
                self._parts.report(f"Failed to execute the command in {event_id}.", error)

        task = self._running[event_id] = self._background.spawn("call of a person", guarded())
        task.add_done_callback(lambda _: self._running.pop(event_id, None))

    async def _help(self, event: RoomEvent, office_id: str) -> None:
        text = help_text(await self._calls.tools(office_id, event.sender))
        await self._responder.reply(event, self._place(event.room_id), text, "answer")

    async def _execute(self, event: RoomEvent, office_id: str, command: CallCommand, order: OrderRow) -> None:
        reason = self._calls.why_not(office_id, command.computer)
        if reason is not None:
            await self._replies.reply(event, order, Text.of(reason))
            return
        try:
            result = await self._calls.call(
                office_id,
                command.computer,
                command.tool_name,
                command.params,
                seconds=command.timeout,
                by=event.sender,
                call_id=order.call_id,
            )
        except ConnectionLost:
            # A call that cannot be recorded is not made.
            await self._replies.reply(event, order, Text.of(NOT_MADE))
            return
        thread = await self._replies.thread_link(event.room_id, order.call_id)
        text = answer_text(command.computer, command.tool_name, result.answer, result.took_ms, thread)
        await self._replies.reply(event, order, text)

    def _place(self, room_id: str) -> RoomContext:
        return room_context(room_id, self._settings)
