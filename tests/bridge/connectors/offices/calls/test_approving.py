"""People are asked before a tool is called, and stop what is under way."""

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
class Stage:
    """An office, and people of another homeserver in its room."""

    running: Running
    agent: Client
    computer: Client
    there: Node
    room_id: str

    async def until(self, condition: Callable[[RoomEvent], object]) -> RoomEvent:
        """As people see it."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                for event in (await self.there.rooms.messages(self.room_id, limit=200)).events:
                    if condition(event):
                        return event
                await asyncio.sleep(0.02)

    async def until_said(self, part: str) -> RoomEvent:
        return await self.until(lambda event: part in str(event.content.get("body")))

    async def react(self, user: str, event_id: str, key: str) -> None:
        await self.there.rooms.send(self.room_id, user, "m.reaction", reaction(event_id, key))

    async def say(self, user: str, root: str, body: str) -> None:
        await self.there.rooms.send(self.room_id, user, "m.room.message", in_thread(root, text(body)))

    async def question(self, req_id: str) -> tuple[str, str]:
        """The call, and what is asked about it."""
        root = await self.until(lambda event: event.content.get(CALL, {}).get("req_id") == req_id)

        def asks(event: RoomEvent) -> bool:
            related = event.content.get("m.relates_to", {})
            return "wants add" in str(event.content.get("body")) and related["event_id"] == root.event_id

        return root.event_id, (await self.until(asks)).event_id

    def call(self, req_id: str = "1", **params: Any) -> "asyncio.Task[Any]":
        return asyncio.create_task(self.agent.call("hands", req_id, **params))


@asynccontextmanager
async def stage(server: Server, template: str, **settings: Any) -> AsyncIterator[Stage]:
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
            yield Stage(running, agent, computer, there, room_id)


@pytest.fixture
async def asked(postgres_server: Server, migrated_template: str) -> AsyncIterator[Stage]:
    async with stage(postgres_server, migrated_template, rules=ASK) as made:
        yield made


async def test_a_call_waits_until_it_is_let(asked: Stage) -> None:
    """The Computer hears nothing before; whose answer does not count is told so."""
    calling = asked.call()
    question = await asked.until_said("wants add on hands")
    await asked.react(BOB, question.event_id, "✅")
    await asked.until_said("may not decide about this call")
    assert not any(event == TOOL_CALL for event, _ in await asked.computer.quiet())
    await asked.react(ALICE, question.event_id, "✅")
    assert await calling == DONE
    await asked.until_said(f"{ALICE} lets it")


async def test_a_call_is_refused(asked: Stage) -> None:
    """By a sign or a word, on the question or on the call; the Agent is told by whom."""
    for req_id, by_word in (("sign", False), ("word", True)):
        calling = asked.call(req_id)
        root, _ = await asked.question(req_id)
        await (asked.say(ALICE, root, "no") if by_word else asked.react(ALICE, root, "❌"))
        answer = await calling
        assert (answer["isError"], answer["meta"]) == (True, {"a2c_approval": "refused", "by": ALICE})
    assert not any(event == TOOL_CALL for event, _ in await asked.computer.quiet())


async def test_nobody_answers(postgres_server: Server, migrated_template: str) -> None:
    """In time: then it is refused, and the Agent is told that nobody has."""
    rules = (ApprovalRule(approval="ask", deadline=1.0),)
    async with stage(postgres_server, migrated_template, rules=rules) as play:
        answer = await play.agent.call("hands")
        assert answer["meta"] == {"a2c_approval": "expired"}
        await play.until_said("Nobody has answered in time")


async def test_who_is_not_there_any_more_is_not_waited_for(asked: Stage) -> None:
    """Neither the Agent, nor the Computer."""
    calling = asked.call("taken back")
    await asked.question("taken back")
    await asked.agent.tell("server:tool_call_cancel", {"agent": "x", "req_id": "taken back"})
    assert (await calling)["meta"] == {"a2c_cancelled": True}
    calling = asked.call("gone")
    await asked.question("gone")
    await asked.computer.close()
    assert (await calling)["code"] == 404


async def test_what_is_denied_nobody_is_asked_about(postgres_server: Server, migrated_template: str) -> None:
    """And what no rule is for is called at once."""
    rules = (ApprovalRule(office="a", tool="add", approval="deny"),)
    async with stage(postgres_server, migrated_template, rules=rules) as play:
        assert (await play.agent.call("hands"))["meta"] == {"a2c_approval": "refused"}
        assert not any(event == TOOL_CALL for event, _ in await play.computer.quiet())
        said = {
            "agent": "x", "req_id": "2", "computer": "hands", "tool_name": "sub", "params": {}, "timeout": 5,
        }  # fmt: skip
        assert await play.agent.ask(TOOL_CALL, said) == DONE


async def test_a_call_that_is_under_way_is_stopped(postgres_server: Server, migrated_template: str) -> None:
    """By whoever administers, with a sign on the call; nobody else's sign counts, and who gives it is told so
    once. What is over is left alone."""
    async with stage(postgres_server, migrated_template) as play:
        answer: asyncio.Future[Any] = asyncio.Future()
        play.computer.answers[TOOL_CALL] = answer
        calling = play.call("long")
        root = await play.until(lambda event: CALL in event.content)
        await play.react(BOB, root.event_id, "❌")
        await play.until_said(f'{BOB} may not stop this call: that takes the permission "administer".')
        await play.react(ALICE, root.event_id, "❌")
        told = await play.computer.until("notify:tool_call_cancel")
        assert told == {"agent": "x", "req_id": "long"}
        await play.until_said(f"{ALICE} stops it")
        answer.set_result({**DONE, "isError": True})
        assert (await calling)["isError"] is True
        assert not any(event == "notify:tool_call_cancel" for event, _ in await play.computer.quiet())
        await play.until(lambda event: RESULT in event.content)
        for user in (BOB, ALICE):
            await play.react(user, root.event_id, "❌")
        # What comes later is heard later.
        answer = asyncio.Future()
        play.computer.answers[TOOL_CALL] = answer
        play.call("next")
        after = await play.until(lambda event: event.content.get(CALL, {}).get("req_id") == "next")
        await play.react(BOB, after.event_id, "❌")
        await play.until(
            lambda event: (
                "may not stop" in str(event.content.get("body"))
                and event.content["m.relates_to"]["event_id"] == after.event_id
            )
        )
        said = (await play.there.rooms.messages(play.room_id, limit=200)).events
        assert len([event for event in said if "may not stop" in str(event.content.get("body"))]) == 2
        assert len([event for event in said if "stops it" in str(event.content.get("body"))]) == 1
        answer.set_result(DONE)
