"""What people call in the rooms of offices."""

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
from tests.bridge.connectors.offices.calls.callers import ALICE, BOB, DONE, Stage, stage
from tests.bridge.connectors.offices.clients import TIMEOUT
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import nodes, now_ms
from tests.support.agents import address
from tests.support.postgres import Server


@pytest.fixture
async def play(postgres_server: Server, migrated_template: str) -> AsyncIterator[Stage]:
    async with stage(postgres_server, migrated_template) as made:
        yield made


async def test_a_person_calls_a_tool(play: Stage) -> None:
    """The call and its result are a thread as those of an Agent; who has asked is led there."""
    said = await play.say('!call hands add {"a": 1, "password": "hunter2"}')
    heard = await play.computer.until(TOOL_CALL)
    assert (heard["agent"], heard["tool_name"], heard["timeout"]) == (ALICE, "add", 60)
    assert heard["params"] == {"a": 1, "password": "hunter2"}
    answer = await play.answer(said)
    root = await play.until(lambda event: CALL in event.content)
    result = await play.until(lambda event: RESULT in event.content)
    assert root.content[CALL]["agent"] == ALICE
    assert root.content[CALL]["direct"] is True
    assert root.sender == "@palaver:here.test"
    assert "hunter2" not in str(root.content)
    assert result.content["m.relates_to"]["event_id"] == root.event_id
    assert "add on hands: ✅" in answer
    assert "3" in answer.splitlines()
    assert "matrix.to" in answer
    assert root.event_id.lstrip("$") in answer
    assert await play.untold() == []


async def test_words_are_enough_for_what_is_simple(play: Stage) -> None:
    """Where it was said in a thread, it is answered there."""
    root = await play.say("let us see")
    said = await play.send(in_thread(root, text("!call --timeout 5 hands add a=1 b=two")))
    heard = await play.computer.until(TOOL_CALL)
    assert (heard["params"], heard["timeout"]) == ({"a": 1, "b": "two"}, 5)
    await play.answer(said)


async def test_it_takes_a_permission(play: Stage) -> None:
    """Whoever is refused learns by which rule."""
    said = await play.say("!call hands add a=1", BOB)
    answer = await play.answer(said)
    assert 'takes the permission "work"' in answer
    assert 'the rule "*" = "look"' in answer
    assert await play.called() == 0


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("!call hands", "Say it like this: !call COMPUTER TOOL"),
        ("!call hands add [1]", "neither NAME=VALUE"),
        ("!call hands add {", "no JSON"),
        ("!call hans add", "Did you mean hands? There is hands."),
        ("!call eyes add", "There is no Computer eyes in the office a."),
    ],
)
async def test_what_is_wrong_is_answered(play: Stage, line: str, part: str) -> None:
    """With who is there."""
    answer = await play.answer(await play.say(line))
    assert part in answer
    assert "hands" in answer
    assert await play.called() == 0


async def test_what_there_is_is_told(play: Stage) -> None:
    """Where nobody has asked the Computers yet, they are asked."""
    tools = [{"name": name, "description": ""} for name in ("add", "sub")]
    play.computer.answers["client:get_tools"] = {"tools": tools, "req_id": "tools"}
    for line, user in (("!call help", ALICE), ("!call", BOB)):
        said = await play.say(line, user)
        answer = await play.until(
            lambda event, said=said: (
                event.content.get("m.relates_to", {}).get("m.in_reply_to", {}).get("event_id") == said
                and event.sender == "@palaver:here.test"
            )
        )
        body = str(answer.content["body"])
        assert "hands: add, sub" in body


async def test_persons_alone_call(play: Stage) -> None:
    """No notice, nothing that bears the mark, no edit, no agent of whatever node; and nobody elsewhere."""
    here = play.house.node
    await play.house.routes.update([Registration(address("bob@there.test"), "cis", "x", (), now_ms())])
    root = await play.say("hello")
    line = "!call hands add a=1"
    await play.say(line, msgtype="m.notice")
    await play.say(line, **{MARK: {"kind": "word"}})
    await play.send(edit(root, text(line)))
    await play.say(line, BOB)
    await play.say(f"say {line}")
    await here.rooms.send(play.room_id, "@palaver:here.test", "m.room.message", text(line))
    elsewhere = (
        await play.there.rooms.create_room(CreateRoomRequest(creator=ALICE, invite=("@palaver:here.test",)))
    ).room_id
    await play.there.rooms.set_state(elsewhere, ALICE, OFFICE, {"office_id": "a", "node": "here.test"})
    await here.rooms.join(elsewhere, "@palaver:here.test", via=["there.test"])
    await play.there.rooms.send(elsewhere, ALICE, "m.room.message", text(line))
    assert await play.called() == 0


async def test_what_is_read_again_is_called_once(play: Stage) -> None:
    """While it is under way, and when it is over."""
    answer: asyncio.Future[Any] = asyncio.Future()
    play.computer.answers[TOOL_CALL] = answer
    said = await play.say("!call hands add a=1")
    await play.computer.until(TOOL_CALL)
    ordering = play.house.connector.reaching.ordering
    event = await play.house.node.rooms.event(play.room_id, said)
    assert event is not None
    await ordering._heard(event)
    answer.set_result(DONE)
    await play.answer(said)
    await ordering._heard(event)
    assert await play.called() == 0


async def test_the_rules_of_approval_hold(postgres_server: Server, migrated_template: str) -> None:
    """Who calls is who asks."""
    rules = (ApprovalRule(tool="add", approval="ask", approvers=(BOB,)),)
    async with stage(postgres_server, migrated_template, rules=rules) as play:
        said = await play.say("!call hands add a=1")
        question = await play.until(lambda event: "wants add on hands" in str(event.content.get("body")))
        assert ALICE in question.content["body"]
        await play.there.rooms.send(play.room_id, BOB, "m.reaction", reaction(question.event_id, "❌"))
        answer = await play.answer(said)
        assert "❌ Refused." in answer
        assert BOB in answer
        assert await play.called() == 0


async def test_a_computer_that_goes_is_answered_for(play: Stage) -> None:
    """At once."""
    play.computer.answers[TOOL_CALL] = asyncio.Future()
    said = await play.say("!call hands add a=1")
    await play.computer.until(TOOL_CALL)
    await play.computer.close()
    assert "The Computer is not there" in await play.answer(said)


async def test_of_nodes_that_share_an_office_one_does_it(
    postgres_server: Server, migrated_template: str
) -> None:
    """That of the Computer; what is for none, that of the office. Who is no member asks no other node."""
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

        async def answers(body: str, count: int) -> list[str]:
            said = await people.rooms.send(room_id, alice, "m.room.message", text(body))
            async with asyncio.timeout(TIMEOUT):
                while True:
                    events = (await people.rooms.messages(room_id, limit=200)).events
                    found = [
                        event.sender
                        for event in events
                        if event.content.get("m.relates_to", {}).get("m.in_reply_to", {}).get("event_id")
                        == said
                    ]
                    if len(found) >= count:
                        return found
                    await asyncio.sleep(0.02)

        assert await answers("!call hands add a=1", 1) == ["@palaver:away.test"]
        assert (await hands.until(TOOL_CALL))["agent"] == alice
        assert await answers("!call nobody add", 1) == ["@palaver:home.test"]
        assert await answers("!call help", 1) == ["@palaver:home.test"]
        assert not any(event == TOOL_CALL for event, _ in await hands.quiet())
        calls = opened[0][1].reaching.calls
        called = await calls.call("kitchen", "hands", "add", {}, seconds=5, by="operator@home.test")
        assert called.answer["code"] == 403
        assert "is connected to away.test" in called.answer["message"]
        assert await calls.tools("kitchen", alice) == {"feet": None, "hands": None}
