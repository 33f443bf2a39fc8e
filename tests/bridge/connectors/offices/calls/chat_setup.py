"""People in the room of an office who call its tools."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms.office_room import alias
from bridge.people.permissions import Level, Rights
from bridge.people.texts.text import MARK
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import text
from storage.offices import orders as office_orders
from tests.bridge.connectors.offices.calls.core_setup import CoreSetup, core_with_offices
from tests.bridge.connectors.offices.clients import TIMEOUT, Client
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

DONE = {"content": [{"type": "text", "text": "3"}], "isError": False}
ALICE, BOB = "@alice:there.test", "@bob:there.test"
RIGHTS = Rights({"*": Level.LOOK, ALICE: Level.WORK})


@dataclass
class ChatSetup:
    core: CoreSetup
    computer: Client
    there: Node
    room_id: str

    async def send_text(self, body: str, user: str = ALICE, **more: Any) -> str:
        return await self.send({**text(body), **more}, user)

    async def send(self, content: dict[str, Any], user: str = ALICE) -> str:
        return await self.there.rooms.send(self.room_id, user, "m.room.message", content)

    async def wait_for(self, condition: Callable[[RoomEvent], object]) -> RoomEvent:
        """Wait for a message that people can see."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                for event in (await self.there.rooms.messages(self.room_id, limit=200)).events:
                    if condition(event):
                        return event
                await asyncio.sleep(0.02)

    async def reply_to(self, event_id: str) -> str:
        """Wait for the reply to this message."""

        def answers(event: RoomEvent) -> bool:
            related = event.content.get("m.relates_to", {})
            return event.sender != ALICE and related.get("m.in_reply_to", {}).get("event_id") == event_id

        event = await self.wait_for(answers)
        assert MARK in event.content
        return str(event.content["body"])

    async def count_calls(self) -> int:
        """How often tools were called because of the messages sent until now."""
        await self.reply_to(await self.send_text("!call help"))
        received = await self.computer.unexpected()
        return sum(event == TOOL_CALL for event, _ in received)

    async def unanswered(self) -> list[str]:
        async with self.core.node.database.transaction(readonly=True) as connection:
            return [row.event_id for row in await office_orders.list_unreported(connection, 10)]


@asynccontextmanager
async def chat_setup(server: Server, template: str, **settings: Any) -> AsyncIterator[ChatSetup]:
    async with nodes(server, template) as both:
        here, there = await both.start("here.test", "there.test")
        async with core_with_offices(here, rights=RIGHTS, **settings) as core:
            computer = await core.running.computer(token=core.token)
            computer.answers[TOOL_CALL] = DONE
            yield ChatSetup(core, computer, there, await people_in(there, here))


async def people_in(there: Node, here: Node) -> str:
    async with asyncio.timeout(TIMEOUT):
        while await here.rooms.resolve_alias(alias("a", here.name)) is None:
            await asyncio.sleep(0.01)
    room_id = ""
    for user in (ALICE, BOB):
        await there.rooms.ensure_user(user)
        room_id = await there.rooms.join(alias("a", here.name), user)
    return room_id
