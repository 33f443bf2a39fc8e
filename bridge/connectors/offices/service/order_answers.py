"""Tells people what came of the calls that they have made in rooms: as soon as it is known, and what a
process before this one has not told.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bridge.connectors.offices.call_texts import INTERRUPTED, address_of, answer_text
from bridge.connectors.offices.service.record_rows import read_body, read_call
from bridge.connectors.offices.service.recording import RoomParts
from bridge.people.place import Kind, Place
from bridge.people.service.telling import Telling
from bridge.people.settings import PeopleSettings
from bridge.people.text import Text
from federation.errors import MatrixError
from federation.room_event import RoomEvent
from storage import office_orders, office_records
from storage.connecting import ConnectionLost
from storage.office_orders import OrderRow

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
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_for_ever())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def tell(self, event: RoomEvent, made: OrderRow, said: Text) -> None:
        await self._telling.tell(event, place_of(event.room_id, self._parts.settings), said, "answer")
        async with self._parts.database.transaction() as connection:
            await office_orders.set_told(connection, made.event_id)

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
            untold = await office_orders.list_untold(connection, AT_ONCE)
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
            await office_orders.set_told(connection, made.event_id)
