"""Replies to `!call` messages that an earlier process has not sent."""

import asyncio

import pytest

from bridge.connectors.offices.calls import chat_calls as module
from bridge.connectors.offices.calls.chat_calls import call_id_of
from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms.call_events import RESULT
from storage.offices import orders as office_orders
from storage.offices.orders import OrderRow
from storage.offices.records import NewRecord, insert_records
from tests.bridge.connectors.offices.calls.chat_setup import DONE, RIGHTS, ChatSetup, people_in
from tests.bridge.connectors.offices.calls.core_setup import core_with_offices
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.federation.nodes import nodes, now_ms
from tests.support.postgres import Server

CALLED = (
    b'{"req_id": "r", "agent": "@alice:there.test", "computer": "hands", "tool_name": "add", "params": {},'
    b' "hidden": [], "direct": true}'
)


async def test_replies_are_sent_after_a_kill(
    postgres_server: Server, migrated_template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once. No tool is called again."""
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.1)
    async with nodes(postgres_server, migrated_template) as both:
        here, there = await both.start("here.test", "there.test")
        async with core_with_offices(here, rights=RIGHTS) as setup:
            computer = await setup.running.computer(token=setup.token)
            computer.answers[TOOL_CALL] = DONE
            chat = ChatSetup(setup, computer, there, await people_in(there, here))
            done = await chat.send_text("!call hands add a=1")
            await chat.reply_to(done)
            lost, never = await chat.send_text("as if it were heard"), await chat.send_text("and this")
        async with here.database.transaction() as connection:
            # As if the node had been killed: after the first reply was sent but not recorded, while the
            # second call was running, and before the third was made.
            await connection.execute("UPDATE office_orders SET is_told = false")
            for event_id in (lost, never):
                order = OrderRow(event_id, chat.room_id, call_id_of(event_id), now_ms() - 60_000)
                await office_orders.insert_order(connection, order)
            await insert_records(connection, [NewRecord("a", "called", call_id_of(lost), CALLED, now_ms())])
        async with core_with_offices(here, rights=RIGHTS) as setup:
            chat.core = setup
            assert "no tool was called" in await chat.reply_to(never)
            assert "add on hands: ❌ Interrupted." in await chat.reply_to(lost)
            async with asyncio.timeout(TIMEOUT):
                while await chat.unanswered():
                    await asyncio.sleep(0.02)
            interrupted = await chat.wait_for(
                lambda event: event.content.get(RESULT, {}).get("outcome") == "interrupted"
            )
            assert interrupted.content[RESULT]["call_id"] == call_id_of(lost)
            after = (await there.rooms.messages(chat.room_id, limit=200)).events
            # The reply that had been sent is the same event again.
            replies = [event for event in after if "m.in_reply_to" in event.content.get("m.relates_to", {})]
            answers = [event.content["m.relates_to"]["m.in_reply_to"]["event_id"] for event in replies]
            assert answers.count(done) == answers.count(lost) == answers.count(never) == 1
