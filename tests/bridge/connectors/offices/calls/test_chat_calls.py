"""Calls of tools by messages in the rooms of offices."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from bridge.agents.updates import Registration
from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.connectors.offices.rooms.call_events import CALL, RESULT
from bridge.connectors.offices.rooms.office_room import OFFICE, alias
from bridge.connectors.offices.settings import ApprovalRule
from bridge.people.permissions import Level, Rights
from bridge.people.texts.text import MARK
from federation.matrix.message_content import edit, in_thread, reaction, text
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.connectors.offices.calls.chat_setup import ALICE, BOB, DONE, ChatSetup, chat_setup
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import nodes, now_ms
from tests.support.agents import address
from tests.support.postgres import Server


@pytest.fixture
async def chat(postgres_server: Server, migrated_template: str) -> AsyncIterator[ChatSetup]:
    async with chat_setup(postgres_server, migrated_template) as made:
        yield made


async def test_a_person_calls_a_tool(chat: ChatSetup) -> None:
    """The call and its result are a thread like those of an Agent's call. The reply links to it."""
    message = await chat.send_text('!call hands add {"a": 1, "password": "hunter2"}')
    payload = await chat.computer.wait_for(TOOL_CALL)
    assert (payload["agent"], payload["tool_name"], payload["timeout"]) == (ALICE, "add", 60)
    assert payload["params"] == {"a": 1, "password": "hunter2"}
    answer = await chat.reply_to(message)
    root = await chat.wait_for(lambda event: CALL in event.content)
    result = await chat.wait_for(lambda event: RESULT in event.content)
    assert root.content[CALL]["agent"] == ALICE
    assert root.content[CALL]["direct"] is True
    assert root.sender == "@palaver:here.test"
    assert "hunter2" not in str(root.content)
    assert result.content["m.relates_to"]["event_id"] == root.event_id
    assert "add on hands: ✅" in answer
    assert "3" in answer.splitlines()
    assert "matrix.to" in answer
    assert root.event_id.lstrip("$") in answer
    assert await chat.unanswered() == []


async def test_simple_parameters_can_be_words(chat: ChatSetup) -> None:
    """A command in a thread is answered there."""
    root = await chat.send_text("let us see")
    message = await chat.send(in_thread(root, text("!call --timeout 5 hands add a=1 b=two")))
    payload = await chat.computer.wait_for(TOOL_CALL)
    assert (payload["params"], payload["timeout"]) == ({"a": 1, "b": "two"}, 5)
    await chat.reply_to(message)


async def test_a_call_needs_a_permission(chat: ChatSetup) -> None:
    """The refusal names the rule."""
    message = await chat.send_text("!call hands add a=1", BOB)
    answer = await chat.reply_to(message)
    assert 'You need the permission "work"' in answer
    assert 'the rule "*" = "look"' in answer
    assert await chat.count_calls() == 0


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("!call hands", "Write it like this: !call COMPUTER TOOL"),
        ("!call hands add [1]", "neither NAME=VALUE"),
        ("!call hands add {", "not valid JSON"),
        ("!call hans add", "Did you mean hands? There is hands."),
        ("!call eyes add", "There is no Computer eyes in the office a."),
    ],
)
async def test_a_mistake_is_answered(chat: ChatSetup, line: str, part: str) -> None:
    """With the names of the Computers."""
    answer = await chat.reply_to(await chat.send_text(line))
    assert part in answer
    assert "hands" in answer
    assert await chat.count_calls() == 0


async def test_help_lists_the_tools(chat: ChatSetup) -> None:
    """Computers whose tools are not known yet are queried."""
    tools = [{"name": name, "description": ""} for name in ("add", "sub")]
    chat.computer.answers["client:get_tools"] = {"tools": tools, "req_id": "tools"}
    for line, user in (("!call help", ALICE), ("!call", BOB)):
        message = await chat.send_text(line, user)
        answer = await chat.wait_for(
            lambda event, message=message: (
                event.content.get("m.relates_to", {}).get("m.in_reply_to", {}).get("event_id") == message
                and event.sender == "@palaver:here.test"
            )
        )
        body = str(answer.content["body"])
        assert "hands: add, sub" in body


async def test_only_messages_of_people_count(chat: ChatSetup) -> None:
    """No notices, marked messages, edits, agents of any node, nor messages in other rooms."""
    here = chat.core.node
    await chat.core.routes.update([Registration(address("bob@there.test"), "cis", "x", (), now_ms())])
    root = await chat.send_text("hello")
    line = "!call hands add a=1"
    await chat.send_text(line, msgtype="m.notice")
    await chat.send_text(line, **{MARK: {"kind": "word"}})
    await chat.send(edit(root, text(line)))
    await chat.send_text(line, BOB)
    await chat.send_text(f"say {line}")
    await here.rooms.send(chat.room_id, "@palaver:here.test", "m.room.message", text(line))
    elsewhere = (
        await chat.there.rooms.create_room(CreateRoomRequest(creator=ALICE, invite=("@palaver:here.test",)))
    ).room_id
    await chat.there.rooms.set_state(elsewhere, ALICE, OFFICE, {"office_id": "a", "node": "here.test"})
    await here.rooms.join(elsewhere, "@palaver:here.test", via=["there.test"])
    await chat.there.rooms.send(elsewhere, ALICE, "m.room.message", text(line))
    assert await chat.count_calls() == 0


async def test_a_message_that_is_read_again_is_executed_once(chat: ChatSetup) -> None:
    """While the call is running, and after it has ended."""
    answer: asyncio.Future[Any] = asyncio.Future()
    chat.computer.answers[TOOL_CALL] = answer
    message = await chat.send_text("!call hands add a=1")
    await chat.computer.wait_for(TOOL_CALL)
    chat_calls = chat.core.connector.gateway.chat_calls
    event = await chat.core.node.rooms.event(chat.room_id, message)
    assert event is not None
    await chat_calls._handle(event)
    answer.set_result(DONE)
    await chat.reply_to(message)
    await chat_calls._handle(event)
    assert await chat.count_calls() == 0


async def test_approval_rules_apply(postgres_server: Server, migrated_template: str) -> None:
    """The question names the person as the requester."""
    rules = (ApprovalRule(tool="add", approval="ask", approvers=(BOB,)),)
    async with chat_setup(postgres_server, migrated_template, rules=rules) as chat:
        message = await chat.send_text("!call hands add a=1")
        question = await chat.wait_for(lambda event: "wants to call add" in str(event.content.get("body")))
        assert ALICE in question.content["body"]
        await chat.there.rooms.send(chat.room_id, BOB, "m.reaction", reaction(question.event_id, "❌"))
        answer = await chat.reply_to(message)
        assert "❌ Refused." in answer
        assert BOB in answer
        assert await chat.count_calls() == 0


async def test_a_call_is_answered_if_its_computer_disconnects(chat: ChatSetup) -> None:
    """The caller does not wait for the timeout."""
    chat.computer.answers[TOOL_CALL] = asyncio.Future()
    message = await chat.send_text("!call hands add a=1")
    await chat.computer.wait_for(TOOL_CALL)
    await chat.computer.close()
    assert "The Computer is not connected" in await chat.reply_to(message)


async def test_one_of_several_nodes_executes_a_command(postgres_server: Server, migrated_template: str) -> None:
    """The Computer's node, or the office's node if there is no such Computer. A direct call cannot reach a
    Computer of another node."""
    async with nodes(postgres_server, migrated_template) as all_nodes, AsyncExitStack() as stack:
        home, away, people = await all_nodes.start("home.test", "away.test", "people.test")
        alice = "@alice:people.test"
        rights = Rights({alice: Level.WORK})
        opened = [
            await stack.enter_async_context(offices_of(node, rights=rights, is_shared=True, nodes=peers))
            for node, peers in ((home, ("away.test",)), (away, ()))
        ]
        tokens = [await one[2].create("all", ["agent", "computer"]) for one in opened]
        await opened[0][0].computer("feet", "kitchen", token=tokens[0])
        hands = await opened[1][0].computer("hands", "kitchen@home.test", token=tokens[1])
        hands.answers[TOOL_CALL] = DONE
        await people.rooms.ensure_user(alice)
        room_id = await people.rooms.join(alias("kitchen", home.name), alice)

        async def senders_of_replies(body: str, count: int) -> list[str]:
            message = await people.rooms.send(room_id, alice, "m.room.message", text(body))
            async with asyncio.timeout(TIMEOUT):
                while True:
                    events = (await people.rooms.messages(room_id, limit=200)).events
                    found = [
                        event.sender
                        for event in events
                        if event.content.get("m.relates_to", {}).get("m.in_reply_to", {}).get("event_id") == message
                    ]
                    if len(found) >= count:
                        return found
                    await asyncio.sleep(0.02)

        assert await senders_of_replies("!call hands add a=1", 1) == ["@palaver:away.test"]
        assert (await hands.wait_for(TOOL_CALL))["agent"] == alice
        assert await senders_of_replies("!call nobody add", 1) == ["@palaver:home.test"]
        assert await senders_of_replies("!call help", 1) == ["@palaver:home.test"]
        assert not any(event == TOOL_CALL for event, _ in await hands.unexpected())
        calls = opened[0][1].gateway.calls
        called = await calls.call("kitchen", "hands", "add", {}, seconds=5, by="operator@home.test")
        assert called.answer["code"] == 403
        assert "is connected to away.test" in called.answer["message"]
        assert await calls.tools("kitchen", alice) == {"feet": None, "hands": None}
