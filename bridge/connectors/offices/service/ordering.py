"""Hears what people call in the rooms of offices, has it called, and tells them what came of it.

A message is written down before its tool is called. Read again after a kill it is known, and nothing is
called a second time: what came of the call stands in the records, or that nobody knows.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from bridge.connectors.offices.call_command import Help, NoOrder, Order, parse
from bridge.connectors.offices.call_texts import (
    NOT_MADE,
    TOO_OLD,
    answer_text,
    help_text,
    mistake_text,
)
from bridge.connectors.offices.office_room import OFFICE, room_key
from bridge.connectors.offices.ordering import (
    call_id_of,
    is_for_this_node,
    is_too_old,
    may_order,
    order_line,
)
from bridge.connectors.offices.service.direct_calls import DirectCalls
from bridge.connectors.offices.service.order_answers import OrderAnswers, place_of
from bridge.connectors.offices.service.recording import RoomParts
from bridge.people.permissions import Level
from bridge.people.place import Place
from bridge.people.service.identities import Identities
from bridge.people.service.reader import Reader
from bridge.people.service.telling import Telling
from bridge.people.service.voice import Voice
from bridge.people.text import Text
from bridge.service.routing_table import RoutingTable
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from federation.room_event import EventHead, RoomEvent, StreamedEvent
from storage import office_orders
from storage.connecting import ConnectionLost
from storage.created_rooms import fetch_created
from storage.office_orders import OrderRow

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
        self._offices: BoundedCache[str, str] = BoundedCache(MOST_ROOMS)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._answers = OrderAnswers(parts, self._telling, self._running.__contains__)
        self._reader = Reader(
            parts.side, parts.database, NAME, self._hear, parts.report, wanted=self._concerns
        )

    def start(self) -> None:
        self._reader.start()
        self._answers.start()

    async def hear_no_more(self) -> None:
        """What is said from now on is heard the next time."""
        await self._reader.close()

    async def close(self) -> None:
        await self.hear_no_more()
        await self._answers.close()
        running = list(self._running.values())
        if running:
            await asyncio.wait(running, timeout=LAST_WORDS)
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def is_order(self, event: RoomEvent) -> bool:
        """Whether it is for nobody else, though it may not be a good one."""
        if order_line(event, self._identities.agent_of) is None:
            return False
        return await self._office_of(event.room_id) is not None

    # -- hearing --

    def _concerns(self, event: EventHead) -> bool:
        return may_order(event, self._identities.is_ours)

    async def _hear(self, entries: Sequence[StreamedEvent]) -> None:
        for entry in entries:
            if entry.kind != "timeline" or not self._concerns(entry.event):
                continue
            try:
                await self._heard(entry.event)
            except ConnectionLost:
                raise
            except Exception as error:
                # What was not foreseen in one event must not hold up all that follow.
                self._parts.report(f"The event {entry.event.event_id} was not worked on.", error)

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
            return await office_orders.is_known(connection, event_id)

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
        self._offices.put(room_id, office_id)
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

        task = self._running[event_id] = asyncio.create_task(watched())
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
