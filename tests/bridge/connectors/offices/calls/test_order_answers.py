"""What people are told of their calls that a process before has not told."""

import asyncio

import pytest

from bridge.connectors.offices.calls import chat_calls as module
from bridge.connectors.offices.calls.chat_calls import call_id_of
from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms.call_events import RESULT
from storage.offices import orders as office_orders
from storage.offices.orders import OrderRow
from storage.offices.records import NewRecord, insert_records
from tests.bridge.connectors.offices.calls.callers import DONE, RIGHTS, Stage, people_in
from tests.bridge.connectors.offices.calls.staffed import staffed
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.federation.nodes import nodes, now_ms
from tests.support.postgres import Server

CALLED = (
    b'{"req_id": "r", "agent": "@alice:there.test", "computer": "hands", "tool_name": "add", "params": {},'
    b' "hidden": [], "direct": true}'
)


async def test_what_a_kill_has_left_is_told(
    postgres_server: Server, migrated_template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told once, as it is known; nothing is called again."""
    monkeypatch.setattr(module, "LOOKED_AT_EVERY", 0.1)
    async with nodes(postgres_server, migrated_template) as both:
        here, there = await both.start("here.test", "there.test")
        async with staffed(here, rights=RIGHTS) as house:
            computer = await house.running.computer(token=house.token)
            computer.answers[TOOL_CALL] = DONE
            play = Stage(house, computer, there, await people_in(there, here))
            done = await play.say("!call hands add a=1")
            await play.answer(done)
            lost, never = await play.say("as if it were heard"), await play.say("and this")
        async with here.database.transaction() as connection:
            # As if it had been killed: when the first was told and that was not written down, while the
            # second was under way, and before the third was.
            await connection.execute("UPDATE office_orders SET is_told = false")
            for event_id in (lost, never):
                order = OrderRow(event_id, play.room_id, call_id_of(event_id), now_ms() - 60_000)
                await office_orders.insert_order(connection, order)
            await insert_records(connection, [NewRecord("a", "called", call_id_of(lost), CALLED, now_ms())])
        async with staffed(here, rights=RIGHTS) as house:
            play.house = house
            assert "nothing was called" in await play.answer(never)
            assert "add on hands: ❌ Interrupted." in await play.answer(lost)
            async with asyncio.timeout(TIMEOUT):
                while await play.untold():
                    await asyncio.sleep(0.02)
            interrupted = await play.until(
                lambda event: event.content.get(RESULT, {}).get("outcome") == "interrupted"
            )
            assert interrupted.content[RESULT]["call_id"] == call_id_of(lost)
            after = (await there.rooms.messages(play.room_id, limit=200)).events
            # What had been told is the same message.
            told = [event for event in after if "m.in_reply_to" in event.content.get("m.relates_to", {})]
            answers = [event.content["m.relates_to"]["m.in_reply_to"]["event_id"] for event in told]
            assert answers.count(done) == answers.count(lost) == answers.count(never) == 1
