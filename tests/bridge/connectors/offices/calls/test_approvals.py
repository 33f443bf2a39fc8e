"""People approve calls before they are made, and cancel running calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms.call_events import CALL, RESULT
from bridge.connectors.offices.rooms.office_room import alias
from bridge.connectors.offices.settings import ApprovalRule
from bridge.people.permissions import Level, Rights
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import in_thread, reaction, text
from tests.bridge.connectors.offices.clients import TIMEOUT, Client, Running
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

DONE = {"content": [{"type": "text", "text": "3"}], "isError": False}
ALICE, BOB = "@alice:there.test", "@bob:there.test"
RIGHTS = Rights({"*": Level.LOOK, ALICE: Level.ADMINISTER})
ASK = (ApprovalRule(tool="add*", approval="ask", deadline=60.0),)


@dataclass
class ApprovalSetup:
    """An office, and people of another homeserver in its room."""

    running: Running
    agent: Client
    computer: Client
    there: Node
    room_id: str

    async def wait_for(self, condition: Callable[[RoomEvent], object]) -> RoomEvent:
        """Wait for a message that people can see."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                for event in (await self.there.rooms.messages(self.room_id, limit=200)).events:
                    if condition(event):
                        return event
                await asyncio.sleep(0.02)

    async def wait_for_text(self, part: str) -> RoomEvent:
        return await self.wait_for(lambda event: part in str(event.content.get("body")))

    async def react(self, user: str, event_id: str, key: str) -> None:
        await self.there.rooms.send(self.room_id, user, "m.reaction", reaction(event_id, key))

    async def send_in_thread(self, user: str, root: str, body: str) -> None:
        await self.there.rooms.send(self.room_id, user, "m.room.message", in_thread(root, text(body)))

    async def question(self, req_id: str) -> tuple[str, str]:
        """The ids of a call's message and of the question about it."""
        root = await self.wait_for(lambda event: event.content.get(CALL, {}).get("req_id") == req_id)

        def asks(event: RoomEvent) -> bool:
            related = event.content.get("m.relates_to", {})
            is_question = "wants to call add" in str(event.content.get("body"))
            return is_question and related["event_id"] == root.event_id

        return root.event_id, (await self.wait_for(asks)).event_id

    def call(self, req_id: str = "1", **params: Any) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.agent.call("hands", req_id, **params))


@asynccontextmanager
async def approval_setup(server: Server, template: str, **settings: Any) -> AsyncIterator[ApprovalSetup]:
    async with nodes(server, template) as both:
        here, there = await both.start("here.test", "there.test")
        async with offices_of(here, rights=RIGHTS, **settings) as (running, _, tokens):
            token = await tokens.create("all", ["agent", "computer"])
            agent, computer = await running.agent(token=token), await running.computer(token=token)
            computer.answers[TOOL_CALL] = DONE
            async with asyncio.timeout(TIMEOUT):
                while await here.rooms.resolve_alias(alias("a", here.name)) is None:
                    await asyncio.sleep(0.01)
            room_id = ""
            for user in (ALICE, BOB):
                await there.rooms.ensure_user(user)
                room_id = await there.rooms.join(alias("a", here.name), user)
            yield ApprovalSetup(running, agent, computer, there, room_id)


@pytest.fixture
async def setup(postgres_server: Server, migrated_template: str) -> AsyncIterator[ApprovalSetup]:
    async with approval_setup(postgres_server, migrated_template, rules=ASK) as made:
        yield made


async def test_a_call_waits_for_approval(setup: ApprovalSetup) -> None:
    """The Computer receives nothing before. A person whose answer does not count is told so."""
    calling = setup.call()
    question = await setup.wait_for_text("wants to call add on hands")
    await setup.react(BOB, question.event_id, "✅")
    await setup.wait_for_text("may not decide about this call")
    assert not any(event == TOOL_CALL for event, _ in await setup.computer.unexpected())
    await setup.react(ALICE, question.event_id, "✅")
    assert await calling == DONE
    await setup.wait_for_text(f"{ALICE} has approved this")


async def test_a_call_is_refused(setup: ApprovalSetup) -> None:
    """By a reaction or a message, to the question or to the call. The Agent learns who refused it."""
    for req_id, by_word in (("reaction", False), ("word", True)):
        calling = setup.call(req_id)
        root, _ = await setup.question(req_id)
        await (setup.send_in_thread(ALICE, root, "no") if by_word else setup.react(ALICE, root, "❌"))
        answer = await calling
        assert (answer["isError"], answer["meta"]) == (True, {"a2c_approval": "refused", "by": ALICE})
    assert not any(event == TOOL_CALL for event, _ in await setup.computer.unexpected())


async def test_a_question_expires(postgres_server: Server, migrated_template: str) -> None:
    """Without an answer in time, the call is refused."""
    rules = (ApprovalRule(approval="ask", deadline=1.0),)
    async with approval_setup(postgres_server, migrated_template, rules=rules) as setup:
        answer = await setup.agent.call("hands")
        assert answer["meta"] == {"a2c_approval": "expired"}
        await setup.wait_for_text("Nobody has answered in time")


async def test_a_question_is_withdrawn(setup: ApprovalSetup) -> None:
    """When the Agent cancels the call, or the Computer disconnects."""
    calling = setup.call("cancelled")
    await setup.question("cancelled")
    await setup.agent.emit("server:tool_call_cancel", {"agent": "x", "req_id": "cancelled"})
    assert (await calling)["meta"] == {"a2c_cancelled": True}
    calling = setup.call("gone")
    await setup.question("gone")
    await setup.computer.close()
    assert (await calling)["code"] == 404


async def test_a_denied_call_needs_no_answer(postgres_server: Server, migrated_template: str) -> None:
    """It is refused at once. A call to which no rule applies is made at once."""
    rules = (ApprovalRule(office="a", tool="add", approval="deny"),)
    async with approval_setup(postgres_server, migrated_template, rules=rules) as setup:
        assert (await setup.agent.call("hands"))["meta"] == {"a2c_approval": "refused"}
        assert not any(event == TOOL_CALL for event, _ in await setup.computer.unexpected())
        payload = {
            "agent": "x", "req_id": "2", "computer": "hands", "tool_name": "sub", "params": {}, "timeout": 5,
        }  # fmt: skip
        assert await setup.agent.request(TOOL_CALL, payload) == DONE


async def test_a_running_call_is_cancelled(postgres_server: Server, migrated_template: str) -> None:
    """By a person with the permission `administer`, with a reaction to the call. Another person is told once
    that it is not permitted. A call that has ended is ignored."""
    async with approval_setup(postgres_server, migrated_template) as setup:
        answer: asyncio.Future[Any] = asyncio.Future()
        setup.computer.answers[TOOL_CALL] = answer
        calling = setup.call("long")
        root = await setup.wait_for(lambda event: CALL in event.content)
        await setup.react(BOB, root.event_id, "❌")
        await setup.wait_for_text(f"{BOB} cannot stop this call")
        await setup.react(ALICE, root.event_id, "❌")
        cancel = await setup.computer.wait_for("notify:tool_call_cancel")
        assert cancel == {"agent": "x", "req_id": "long"}
        await setup.wait_for_text(f"{ALICE} has cancelled it")
        answer.set_result({**DONE, "isError": True})
        assert (await calling)["isError"] is True
        assert not any(event == "notify:tool_call_cancel" for event, _ in await setup.computer.unexpected())
        await setup.wait_for(lambda event: RESULT in event.content)
        for user in (BOB, ALICE):
            await setup.react(user, root.event_id, "❌")
        # Events are handled in order, so a later call shows that these reactions had no effect.
        answer = asyncio.Future()
        setup.computer.answers[TOOL_CALL] = answer
        setup.call("next")
        after = await setup.wait_for(lambda event: event.content.get(CALL, {}).get("req_id") == "next")
        await setup.react(BOB, after.event_id, "❌")
        await setup.wait_for(
            lambda event: (
                "cannot stop" in str(event.content.get("body"))
                and event.content["m.relates_to"]["event_id"] == after.event_id
            )
        )
        events = (await setup.there.rooms.messages(setup.room_id, limit=200)).events
        assert len([event for event in events if "cannot stop" in str(event.content.get("body"))]) == 2
        assert len([event for event in events if "has cancelled it" in str(event.content.get("body"))]) == 1
        answer.set_result(DONE)
