"""Events that one process reads from the stream for all of them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bridge.connectors.offices.rooms.office_room import alias
from federation.events.room_event import RoomEvent
from tests.bridge.connectors.offices.brokers import zenoh_router
from tests.bridge.connectors.offices.calls.test_approvals import ALICE, ASK, BOB, RIGHTS, ApprovalSetup
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.cluster.process_setup import (
    Processes,
    adds,
    names,
    process,
    token_of,
    two_processes,
)
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server


@pytest.fixture
async def processes(node: Node) -> AsyncIterator[Processes]:
    async with two_processes(node, "zenoh") as made:
        yield made


async def test_the_tools_of_a_computer_are_shared_between_processes(processes: Processes) -> None:
    """Whichever process has queried them. The Computer's own process registers them as its capabilities."""
    boss, hands = await processes.one.agent(), await processes.other.computer()
    hands.answers["client:get_tools"] = {"tools": [{"name": "add", "description": ""}], "req_id": "tools"}
    await boss.tools("hands")
    for one in (processes.one, processes.other):
        async with asyncio.timeout(TIMEOUT):
            while one.connector._records.tools("kitchen", "hands") != ("add",):
                await asyncio.sleep(0.02)
    await hands.leave("kitchen")
    await boss.wait_for("notify:leave_office")
    for one in (processes.one, processes.other):
        assert one.connector._records.tools("kitchen", "hands") is None


async def test_people_decide_about_calls_of_every_process(postgres_server: Server, migrated_template: str) -> None:
    """One process reads their messages. They approve, refuse and cancel calls of each process; a person
    without permission is told so once."""
    async with AsyncExitStack() as stack:
        both = await stack.enter_async_context(nodes(postgres_server, migrated_template))
        here, there = await both.start("here.test", "there.test")
        broker = await stack.enter_async_context(zenoh_router())
        processes = [await process(stack, here, broker.address, rights=RIGHTS, rules=ASK) for _ in range(2)]
        hands = await processes[0].computer()
        async with asyncio.timeout(TIMEOUT):
            while await here.rooms.resolve_alias(alias("kitchen", here.name)) is None:
                await asyncio.sleep(0.01)
        room_id = ""
        for user in (ALICE, BOB):
            await there.rooms.ensure_user(user)
            room_id = await there.rooms.join(alias("kitchen", here.name), user)
        setup = People(processes[0].running, hands, hands, there, room_id)
        for number, one in enumerate(processes):
            boss = await one.agent(f"boss{number}")
            setup.agent = boss
            hands.answers["client:tool_call"] = adds
            calling = setup.call("let", a=1, b=2)
            _, question = await setup.question("let")
            await setup.react(BOB, question, "✅")
            await setup.wait_for_text("may not decide about this call")
            await setup.react(ALICE, question, "✅")
            assert (await calling)["content"][0]["text"] == "3"
            await hands.wait_for("client:tool_call")

            calling = setup.call("refused")
            root, _ = await setup.question("refused")
            await setup.send_in_thread(ALICE, root, "no")
            assert (await calling)["meta"] == {"a2c_approval": "refused", "by": ALICE}

            never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            hands.answers["client:tool_call"] = lambda payload, never=never: asyncio.shield(never)
            calling = setup.call("stopped", seconds=60)
            root, question = await setup.question("stopped")
            await setup.react(ALICE, question, "✅")
            await hands.wait_for("client:tool_call")
            await setup.react(BOB, root, "❌")
            await setup.wait_for_text(f"{BOB} cannot stop this call")
            await setup.react(ALICE, root, "❌")
            assert (await hands.wait_for("notify:tool_call_cancel"))["req_id"] == "stopped"
            never.set_result({"content": [], "isError": True, "meta": {"a2c_cancelled": True}})
            assert (await calling)["meta"] == {"a2c_cancelled": True}
            await boss.leave("kitchen")
            await setup.forget()


async def test_an_office_of_two_nodes_in_two_processes(postgres_server: Server, migrated_template: str) -> None:
    """Whichever process reads the other node's events, the one that needs them receives them."""
    async with AsyncExitStack() as stack:
        both = await stack.enter_async_context(nodes(postgres_server, migrated_template))
        here, there = await both.start("here.test", "there.test")
        broker = await stack.enter_async_context(zenoh_router())
        processes = [
            await process(stack, here, broker.address, is_shared=True, nodes=("there.test",)) for _ in range(2)
        ]
        first = await processes[0].computer("first")
        running, _, tokens = await stack.enter_async_context(offices_of(there, is_shared=True))
        token = await token_of(tokens)
        feet = await running.computer("feet", "kitchen@here.test", token=token)
        feet.answers["client:tool_call"] = adds
        for number, one in enumerate(processes):
            boss = await one.agent(f"boss{number}")
            hands = await one.computer(f"hands{number}")
            hands.answers["client:tool_call"] = adds
            entered = {"office_id": "kitchen@here.test", "agent": f"boss{number}"}
            assert await feet.wait_for("notify:enter_office", entered) == entered
            async with asyncio.timeout(TIMEOUT):
                while "feet" not in await names(boss):
                    await asyncio.sleep(0.05)
            answer = await boss.call("feet", a=1, b=2)
            assert answer["content"][0]["text"] == "3", answer
            await feet.emit("server:update_desktop", {"computer": "feet"})
            assert await boss.wait_for("notify:update_desktop") == {"computer": "feet"}
            await boss.leave("kitchen")
            left = {"office_id": "kitchen@here.test", "agent": f"boss{number}"}
            assert await feet.wait_for("notify:leave_office", left) == left
        chief = await running.agent("chief", "kitchen@here.test", token=token)
        for number in range(2):
            async with asyncio.timeout(TIMEOUT):
                while not {"hands0", "hands1"} <= await names(chief, "kitchen@here.test"):
                    await asyncio.sleep(0.05)
            answer = await chief.call(f"hands{number}", str(number), a=1, b=2)
            assert answer["content"][0]["text"] == "3", answer
        second = await processes[1].client()
        async with asyncio.timeout(TIMEOUT):
            while (joined := await second.join("agent", "boss", "kitchen"))[0]:
                await second.leave("kitchen")
        assert joined == [False, "Room already has an agent"]
        await feet.leave("kitchen@here.test")
        await first.leave("kitchen")


class People(ApprovalSetup):
    """The same people, for one process after the other."""

    async def forget(self) -> None:
        """Ignore all events until now."""
        page = await self.there.rooms.messages(self.room_id, limit=200)
        self._known = {event.event_id for event in page.events}

    async def wait_for(self, condition: Callable[[RoomEvent], object]) -> RoomEvent:
        known = getattr(self, "_known", set())
        return await super().wait_for(lambda event: event.event_id not in known and condition(event))
