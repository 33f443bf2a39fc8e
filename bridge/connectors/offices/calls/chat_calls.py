"""Whether somebody calls a tool by what is said in a room: persons only, and only in words of their own.

Tells people what came of the calls that they have made in rooms: as soon as it is known, and what a
process before this one has not told.

Hears what people call in the rooms of offices, has it called, and tells them what came of it.

A message is written down before its tool is called. Read again after a kill it is known, and nothing is
called a second time: what came of the call stands in the records, or that nobody knows.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from cachetools import LRUCache

from appservice.people.double_puppets import is_marked
from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.connectors.offices.calls.chat_command import (
    PREFIX,
    Help,
    NoOrder,
    Order,
    Parsed,
    behind_prefix,
    parse,
)
from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.protocol.office import NoOffice, office_name
from bridge.connectors.offices.rooms.call_events import (
    INTERRUPTED,
    NOT_MADE,
    TOO_OLD,
    address_of,
    answer_text,
    help_text,
    mistake_text,
)
from bridge.connectors.offices.rooms.office_room import OFFICE, room_key
from bridge.connectors.offices.rooms.record_rows import read_body, read_call
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.people.message import MESSAGE, read
from bridge.people.permissions import Level
from bridge.people.place import Kind, Place
from bridge.people.service.event_inbox import EventInbox
from bridge.people.service.identities import Identities
from bridge.people.service.messenger import Telling, Voice
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import Text, is_ours
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.offices import orders as office_orders
from storage.offices import records as office_records
from storage.offices.orders import OrderRow
from storage.rooms.aliases import fetch_created

MOST_AGE_MS: Final = 3_600_000


def may_order(event: RoomEvent, is_of_node: Callable[[str], bool]) -> bool:
    """By what is known of it before it is read. `is_of_node` is true of users of this node."""
    return event.type == MESSAGE and not is_of_node(event.sender)


def order_line(event: RoomEvent, agent_of: Callable[[str], AgentAddress | None]) -> str | None:
    """What stands behind `!call`; None for what is no order. An edit is none, nor is what an agent says, of
    whatever node, or what was said in a person's name."""
    body = event.content.get("body")
    # Most of what is said is none, and need not be looked into.
    if not isinstance(body, str) or PREFIX not in body.lower():
        return None
    if event.is_redacted or is_ours(event.content) or is_marked(event.content):
        return None
    message = read(event.content)
    if message.msgtype != "m.text" or message.replaces is not None or agent_of(event.sender) is not None:
        return None
    return behind_prefix(message.body)


def is_for_this_node(
    parsed: Parsed, office_id: str, here: Collection[str], everywhere: Collection[str]
) -> bool:
    """Of the nodes that share an office one does what is said in its room: the one to which the Computer is
    connected, and whatever is for no such Computer, the one on which the office lives. `here` are the
    Computers of this node, `everywhere` those of all."""
    if isinstance(parsed, Order) and parsed.computer in everywhere:
        return parsed.computer in here
    name = office_name(office_id, ())
    return isinstance(name, NoOffice) or name.server is None


def is_too_old(event: RoomEvent, now_ms: int) -> bool:
    """What came late, or once more, may have been forgotten by whoever said it."""
    return event.origin_server_ts < now_ms - MOST_AGE_MS


def call_id_of(event_id: str) -> str:
    """Of a message: read again, it is the same call."""
    return f"said-{sha256(event_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


LOOKED_AT_EVERY: Final = 5.0
"""Seconds between two looks for people who do not know yet what came of their calls."""
NEVER_MADE_MS: Final = 30_000
"""After which a call that is not written down is not made any more."""
TOLD_WITHIN: Final = 3.0
"""Seconds for which the message of a call is waited for, to which its caller is led."""
SOON: Final = 0.1
AT_ONCE: Final = 100
KEPT_MS: Final = 90 * 24 * 3_600_000


def place_of(room_id: str, settings: PeopleSettings) -> Place:
    """The node itself speaks there."""
    return Place(room_id, Kind.ROOM, speakers=(settings.node_user,))


class OrderAnswers:
    """`is_running` says of a message whether this process is at what it has asked for. What was left looks
    after itself between `start` and `close`."""

    def __init__(self, parts: RoomParts, telling: Telling, is_running: Callable[[str], bool]) -> None:
        self._parts = parts
        self._telling = telling
        self._is_running = is_running
        self._background = BackgroundTasks()

    def start(self) -> None:
        self._background.supervise("answers to calls of people", self._look_for_ever)

    async def close(self) -> None:
        await self._background.close()

    async def tell(self, event: RoomEvent, made: OrderRow, said: Text) -> None:
        await self._telling.tell(event, place_of(event.room_id, self._parts.settings), said, "answer")
        async with self._parts.database.transaction() as connection:
            await office_orders.mark_reported(connection, made.event_id)

    async def thread(self, room_id: str, call_id: str) -> str | None:
        """Where the call stands in the room, once that has been told of it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TOLD_WITHIN):
                while True:
                    async with self._parts.database.transaction(readonly=True) as connection:
                        if not await office_records.fetch_call(connection, call_id):
                            return None
                        call_event = await office_records.fetch_call_event(connection, call_id)
                    if call_event is not None:
                        return address_of(room_id, call_event)
                    await asyncio.sleep(SOON)
        return None

    # -- what a process before this one has left --

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self._look()
            except ConnectionLost:
                pass  # the next look finds it
            except Exception as error:
                self._parts.report("What came of calls could not be told to whoever has made them.", error)
            await asyncio.sleep(LOOKED_AT_EVERY)

    async def _look(self) -> None:
        now_ms = self._parts.now_ms()
        async with self._parts.database.transaction() as connection:
            untold = await office_orders.list_unreported(connection, AT_ONCE)
            await office_orders.prune(connection, now_ms - KEPT_MS, AT_ONCE)
        for made in untold:
            if self._is_running(made.event_id):
                continue
            try:
                await self._tell_of(made, now_ms)
            except ConnectionLost:
                raise
            except Exception as error:
                # The others wait for theirs.
                self._parts.report(f"What came of {made.event_id} could not be told.", error)

    async def _tell_of(self, made: OrderRow, now_ms: int) -> None:
        async with self._parts.database.transaction(readonly=True) as connection:
            called = await office_records.fetch_call(connection, made.call_id)
            answered = await office_records.fetch_answer(connection, made.call_id)
        if answered is None and (called or now_ms < made.at_ms + NEVER_MADE_MS):
            return  # another process of the node may be at it
        said = Text.of(INTERRUPTED)
        if called and answered is not None:
            call, body = read_call(made.call_id, called[0].body, called[0].at_ms), read_body(answered)
            thread = await self.thread(made.room_id, made.call_id)
            said = answer_text(call.computer, call.tool_name, body["answer"], body["took_ms"], thread)
        try:
            event = await self._parts.side.event(made.room_id, made.event_id)
        except MatrixError:
            event = None
        if event is not None:
            await self.tell(event, made, said)
            return
        # Nobody has asked any more.
        async with self._parts.database.transaction() as connection:
            await office_orders.mark_reported(connection, made.event_id)


NAME: Final = "offices-orders"
MOST_ROOMS: Final = 10_000
LAST_WORDS: Final = 2.0


def nowhere(room_id: str) -> str | None:
    """Offices of other nodes are not to be reached from here."""
    return None


class Ordering:
    """It runs between `start` and `close`. After `hear_no_more` what is under way is still told."""

    def __init__(
        self,
        parts: RoomParts,
        routes: RoutingTable,
        calls: DirectCalls,
        *,
        office_elsewhere: Callable[[str], str | None] = nowhere,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`office_elsewhere` gives the office of another node that has this room."""
        self._parts = parts
        self._calls = calls
        self._office_elsewhere = office_elsewhere
        self._settings = parts.settings
        self._identities = Identities(parts.settings.names, routes)
        voice = Voice(parts.side, parts.database, parts.settings.node_user, parts.report)
        self._telling = Telling(parts.settings, voice, monotonic)
        self._offices: LRUCache[str, str] = LRUCache(MOST_ROOMS)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._background = BackgroundTasks()
        self._answers = OrderAnswers(parts, self._telling, self._running.__contains__)
        self._inbox = EventInbox(
            parts.side, parts.database, NAME, self._hear, parts.report, wanted=self._concerns
        )

    def start(self) -> None:
        self._inbox.start()
        self._answers.start()

    async def hear_no_more(self) -> None:
        """What is said from now on is heard the next time."""
        await self._inbox.close()

    async def close(self) -> None:
        await self.hear_no_more()
        await self._answers.close()
        await self._background.drain(LAST_WORDS)
        await self._background.close()

    async def is_order(self, event: RoomEvent) -> bool:
        """Whether it is for nobody else, though it may not be a good one."""
        if order_line(event, self._identities.agent_of) is None:
            return False
        return await self._office_of(event.room_id) is not None

    # -- hearing --

    def _concerns(self, event: RoomEvent) -> bool:
        return may_order(event, self._identities.is_ours)

    async def _hear(self, entry: StreamedEvent) -> None:
        if entry.kind == "timeline":
            await self._heard(entry.event)

    async def _heard(self, event: RoomEvent) -> None:
        line = order_line(event, self._identities.agent_of)
        office_id = None if line is None else await self._office_of(event.room_id)
        if line is None or office_id is None:
            return
        parsed = parse(line)
        if isinstance(parsed, Order) and await self._is_known(event.event_id):
            return  # whatever came of it is told
        here, everywhere = self._calls.computers_here(office_id), self._calls.computers(office_id)
        if not is_for_this_node(parsed, office_id, here, everywhere):
            return
        refusal = self._telling.not_allowed(event, Level.LOOK if isinstance(parsed, Help) else Level.WORK)
        if refusal is None and is_too_old(event, self._parts.now_ms()):
            refusal = TOO_OLD
        refusal = refusal or self._telling.too_much(event)
        if refusal is not None:
            await self._telling.refuse(event, self._place(event.room_id), refusal)
            return
        match parsed:
            case Order():
                await self._take(event, office_id, parsed)
            case Help():
                self._run(event.event_id, self._help(event, office_id))
            case NoOrder():
                said = mistake_text(parsed, self._calls.computers(office_id))
                await self._telling.tell(event, self._place(event.room_id), said, "refusal")

    async def _take(self, event: RoomEvent, office_id: str, order: Order) -> None:
        """Written down before anything is called."""
        made = OrderRow(event.event_id, event.room_id, call_id_of(event.event_id), self._parts.now_ms())
        async with self._parts.database.transaction() as connection:
            is_new = await office_orders.insert_order(connection, made)
        if is_new:
            self._run(event.event_id, self._carry_out(event, office_id, order, made))

    async def _is_known(self, event_id: str) -> bool:
        async with self._parts.database.transaction(readonly=True) as connection:
            return await office_orders.is_order_known(connection, event_id)

    async def _office_of(self, room_id: str) -> str | None:
        """The office whose room this node has made or come into; what a room says of itself anybody may have
        written."""
        known = self._offices.get(room_id) or self._office_elsewhere(room_id)
        if known is not None:
            return known
        try:
            said = await self._parts.side.state_event(room_id, OFFICE)
        except MatrixError:
            return None
        office_id = None if said is None else said.content.get("office_id")
        if not isinstance(office_id, str):
            return None
        async with self._parts.database.transaction(readonly=True) as connection:
            made = await fetch_created(connection, self._settings.names.node_user, room_key(office_id))
        if made != room_id:
            return None
        self._offices[room_id] = office_id
        return office_id

    # -- doing --

    def _run(self, event_id: str, work: Coroutine[Any, Any, None]) -> None:
        async def watched() -> None:
            try:
                await work
            except ConnectionLost:
                pass  # it is told later
            except Exception as error:
                self._parts.report(f"What was called by {event_id} was not worked on to its end.", error)

        task = self._running[event_id] = self._background.spawn("call of a person", watched())
        task.add_done_callback(lambda _: self._running.pop(event_id, None))

    async def _help(self, event: RoomEvent, office_id: str) -> None:
        said = help_text(await self._calls.tools(office_id, event.sender))
        await self._telling.tell(event, self._place(event.room_id), said, "answer")

    async def _carry_out(self, event: RoomEvent, office_id: str, order: Order, made: OrderRow) -> None:
        reason = self._calls.why_not(office_id, order.computer)
        if reason is not None:
            await self._answers.tell(event, made, Text.of(reason))
            return
        try:
            called = await self._calls.call(
                office_id,
                order.computer,
                order.tool_name,
                order.params,
                seconds=order.timeout,
                by=event.sender,
                call_id=made.call_id,
            )
        except ConnectionLost:
            # What cannot be written down is not called.
            await self._answers.tell(event, made, Text.of(NOT_MADE))
            return
        thread = await self._answers.thread(event.room_id, made.call_id)
        said = answer_text(order.computer, order.tool_name, called.answer, called.took_ms, thread)
        await self._answers.tell(event, made, said)

    def _place(self, room_id: str) -> Place:
        return place_of(room_id, self._settings)
