"""One office on two nodes, with bare clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.connectors.offices.federated.messages import RESPONSE
from bridge.connectors.offices.settings import ApprovalRule
from tests.bridge.connectors.offices.calls.test_approving import ALICE, ASK, RIGHTS
from tests.bridge.connectors.offices.calls.test_approving import Stage as People
from tests.bridge.connectors.offices.clients import TIMEOUT, Client, Running
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

HOME, AWAY = "home.test", "away.test"
OFFICE = f"kitchen@{HOME}"


@dataclass
class Place:
    node: Node
    running: Running
    token: str

    async def agent(self, name: str, office: str) -> Client:
        return await self.running.agent(name, office, token=self.token)

    async def computer(self, name: str, office: str) -> Client:
        return await self.running.computer(name, office, token=self.token)


@dataclass
class Places:
    home: Place
    away: Place


async def place(stack: AsyncExitStack, node: Node, **settings: Any) -> Place:
    running, _, tokens = await stack.enter_async_context(offices_of(node, is_shared=True, **settings))
    return Place(node, running, await tokens.create("all", ["agent", "computer"]))


@pytest.fixture
async def places(postgres_server: Server, migrated_template: str) -> AsyncIterator[Places]:
    async with nodes(postgres_server, migrated_template) as running, AsyncExitStack() as stack:
        home, away = await running.start(HOME, AWAY)
        yield Places(await place(stack, home, nodes=(AWAY,)), await place(stack, away))


def adds(said: Any) -> Any:
    text = str(said["params"]["a"] + said["params"]["b"])
    return {"content": [{"type": "text", "text": text}], "isError": False, "structuredContent": {"sum": 1.5}}


async def seen(client: Client, office: str, *names: str) -> dict[str, Any]:
    """Once these are there, and nobody else."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            answer = await client.list_room(office)
            there = {one["name"]: one for one in answer["sessions"]}
            if set(there) == set(names):
                return there
            await asyncio.sleep(0.02)


async def said(node: Node, type_: str) -> None:
    """Once the node has an event of the type."""
    position = 0
    async with asyncio.timeout(TIMEOUT):
        while True:
            for entry in await node.graph.stream.reader(position).next():
                position = entry.position
                if entry.event.type == type_:
                    return


async def test_an_agent_here_and_a_computer_there(places: Places) -> None:
    """They see each other, each calls the office as it knows it, and what one asks the other answers."""
    boss = await places.home.agent("boss", "kitchen")
    hands = await places.away.computer("hands", OFFICE)
    hands.answers["client:tool_call"] = adds
    assert await boss.until("notify:enter_office") == {"office_id": "kitchen", "computer": "hands"}
    there = await seen(boss, "kitchen", "boss", "hands")
    assert (there["hands"]["office_id"], there["hands"]["a2c_version"]) == ("kitchen", "0.4.0")
    answer = await boss.call("hands", a=1, b=2)
    assert answer["content"] == [{"type": "text", "text": "3"}]
    assert answer["structuredContent"] == {"sum": 1.5}
    await hands.tell("server:update_tool_list", {"computer": "hands"})
    assert await boss.until("notify:update_tool_list") == {"computer": "hands"}
    await hands.leave(OFFICE)
    assert await boss.until("notify:leave_office") == {"office_id": "kitchen", "computer": "hands"}
    gone = await boss.call("hands", a=1, b=2)
    assert gone["code"] == 404


async def test_an_agent_there_and_a_computer_here(places: Places) -> None:
    """The other way round: the office's own name and the one of everybody else are one office."""
    hands = await places.home.computer("hands", OFFICE)
    hands.answers["client:tool_call"] = adds
    hands.answers["client:get_config"] = {"servers": {"x": {"env": {"KEY": "secret"}}}}
    boss = await places.away.agent("boss", OFFICE)
    assert await hands.until("notify:enter_office") == {"office_id": OFFICE, "agent": "boss"}
    answer = await boss.call("hands", a=1, b=2)
    assert answer["content"] == [{"type": "text", "text": "3"}]
    config = await boss.ask("client:get_config", {"agent": "x", "req_id": "c", "computer": "hands"})
    assert config == {"servers": {"x": {"env": {"KEY": "secret"}}}}
    second = await places.home.running.client(token=places.home.token)
    assert await second.join("agent", "second", "kitchen") == [False, "Room already has an agent"]
    taken = await places.home.running.client(token=places.home.token)
    assert await taken.join("computer", "boss", "kitchen") == [False, "Name 'boss' is taken in the office"]


async def test_two_agents_that_sat_down_while_nodes_were_cut_off(places: Places) -> None:
    """Matrix decides which of them stays, on both nodes alike. The other is told why, and leaves."""
    home, away = places.home, places.away
    here = await home.computer("hands", "kitchen")
    there = await away.computer("feet", OFFICE)
    for hands in (here, there):
        hands.answers["client:tool_call"] = adds
    await seen(here, "kitchen", "hands", "feet")
    await seen(there, OFFICE, "hands", "feet")
    home.node.is_down = away.node.is_down = True
    agents = [await home.agent("boss", "kitchen"), await away.agent("chief", OFFICE)]
    home.node.is_down = away.node.is_down = False
    # What is said next is a reason to try again.
    await here.tell("server:update_desktop", {"computer": "hands"})
    await there.tell("server:update_desktop", {"computer": "feet"})

    async def sitting(client: Client, office: str) -> set[str]:
        answer = await client.list_room(office)
        return {one["name"] for one in answer["sessions"] if one["role"] == "agent"}

    async with asyncio.timeout(TIMEOUT):
        while True:
            names = [await sitting(here, "kitchen"), await sitting(there, OFFICE)]
            if names[0] == names[1] and len(names[0]) == 1:
                break
            await asyncio.sleep(0.05)
    [name] = names[0]
    kept, lost = agents if name == "boss" else agents[::-1]
    other, office = ("chief", OFFICE) if name == "boss" else ("boss", "kitchen")
    assert await lost.until("notify:leave_office") == {"office_id": office, "agent": other}
    refused = await lost.call("hands", a=1, b=2)
    assert refused["code"] == 404
    assert "the seat of the Agent has gone to" in refused["details"]["reason"]
    for computer in ("hands", "feet"):
        answer = await kept.call(computer, a=1, b=2)
        assert answer["content"] == [{"type": "text", "text": "3"}]
    assert await lost.join("agent", other, office) == [False, "Room already has an agent"]


async def test_a_large_answer_and_a_large_request(places: Places) -> None:
    """What has no room in an event is a file, sealed as well; it arrives as it was sent."""
    boss = await places.home.agent("boss", "kitchen")
    hands = await places.away.computer("hands", OFFICE)
    await boss.until("notify:enter_office")
    blob = "x" * 300_000
    hands.answers["client:get_blob"] = {"blob": blob, "req_id": "b"}
    hands.answers["client:put_blob"] = lambda said: {"length": len(said["blob"])}
    asked = {"agent": "x", "req_id": "b", "computer": "hands"}
    got = await boss.ask("client:get_blob", {**asked, "blob_handle": "h"})
    assert got == {"blob": blob, "req_id": "b"}
    put = {**asked, "chunk_offset": 0, "eof": True, "blob": blob}
    assert await boss.ask("client:put_blob", put) == {"length": len(blob)}


async def test_a_call_is_taken_back_across_nodes(places: Places) -> None:
    """By the Agent, by the end of its time, and by the Agent's going."""
    boss = await places.home.agent("boss", "kitchen")
    hands = await places.away.computer("hands", OFFICE)
    await boss.until("notify:enter_office")
    release: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def slowly(said: Any) -> Any:
        return await asyncio.shield(release)

    hands.answers["client:tool_call"] = slowly
    calling = asyncio.create_task(boss.call("hands", "first", seconds=60))
    await hands.until("client:tool_call")
    await boss.tell("server:tool_call_cancel", {"agent": "x", "req_id": "first"})
    assert await hands.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "first"}
    release.set_result({"content": [], "isError": True, "meta": {"a2c_cancelled": True}})
    assert (await calling)["meta"] == {"a2c_cancelled": True}

    release = asyncio.get_running_loop().create_future()
    calling = asyncio.create_task(boss.call("hands", "second", seconds=60))
    await hands.until("client:tool_call")
    await boss.leave("kitchen")
    assert await hands.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "second"}
    await calling


async def test_a_computer_that_goes_is_not_waited_for(places: Places) -> None:
    """Who called it is answered at once."""
    boss = await places.home.agent("boss", "kitchen")
    hands = await places.away.computer("hands", OFFICE)
    await boss.until("notify:enter_office")
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda said: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", seconds=60))
    await hands.until("client:tool_call")
    await hands.io.disconnect()
    answer = await calling
    assert answer["code"] == 404


async def test_who_is_not_named_may_not_come(places: Places) -> None:
    """An office into which no other node may: its members are known to nobody here, and it to none of
    them."""
    await places.away.computer("hands", "cellar")
    stranger = await places.home.running.client(token=places.home.token)
    async with asyncio.timeout(TIMEOUT):
        while True:
            joined, reason = await stranger.join("agent", "boss", f"cellar@{AWAY}")
            assert not joined
            if "no such office" not in reason.lower():  # its room is made a moment after it was joined
                break
    assert reason == f"{AWAY} does not let members of this node in"
    assert await stranger.list_room(f"cellar@{AWAY}") == {"code": 403, "message": "Not in office"}


async def test_an_office_that_is_not_there(places: Places) -> None:
    """Its node says so, or cannot be asked; neither leaves anything behind."""
    client = await places.away.running.client(token=places.away.token)
    joined, reason = await client.join("agent", "boss", f"nowhere@{HOME}")
    assert not joined
    assert "no such office" in reason.lower(), reason
    joined, reason = await client.join("agent", "boss", "kitchen@unknown.test")
    assert not joined
    assert await client.join("agent", "boss", "own") == [True, None]


async def test_a_link_that_is_cut_during_a_call(places: Places) -> None:
    """The answer comes when it is healed. Where it is not in time, the Agent is told that, and the Computer
    to stop once it can be."""
    home, away = places.home, places.away
    boss = await home.agent("boss", "kitchen")
    hands = await away.computer("hands", OFFICE)
    await boss.until("notify:enter_office")
    release: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda said: asyncio.shield(release)
    calling = asyncio.create_task(boss.call("hands", "first", seconds=600))
    await hands.until("client:tool_call")
    home.node.is_down = away.node.is_down = True
    release.set_result({"content": [{"type": "text", "text": "late"}], "isError": False})
    await said(away.node, RESPONSE)
    assert not calling.done()
    home.node.is_down = away.node.is_down = False
    await hands.tell("server:update_desktop", {"computer": "hands"})
    assert (await calling)["content"][0]["text"] == "late"

    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda said: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", "second", seconds=1))
    await hands.until("client:tool_call")
    home.node.is_down = away.node.is_down = True
    answer = await calling
    assert answer["meta"] == {"a2c_timeout": True}
    home.node.is_down = away.node.is_down = False
    await boss.ask("client:get_tools", {"agent": "x", "req_id": "t", "computer": "hands"})
    assert await hands.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "second"}


async def test_each_node_asks_its_own_people(postgres_server: Server, migrated_template: str) -> None:
    """A Computer's node may deny what the Agent's node lets through, and the tool is never called."""
    rules = (ApprovalRule(tool="add", approval="deny"),)
    async with nodes(postgres_server, migrated_template) as running, AsyncExitStack() as stack:
        home, away = await running.start(HOME, AWAY)
        here = await place(stack, home, nodes=(AWAY,))
        there = await place(stack, away, rules=rules)
        boss = await here.agent("boss", "kitchen")
        hands = await there.computer("hands", OFFICE)
        await boss.until("notify:enter_office")
        answer = await boss.call("hands", a=1, b=2)
        assert answer["isError"]
        assert "client:tool_call" not in [event for event, _ in hands.heard]


async def test_people_are_asked_by_the_computers_node(
    postgres_server: Server, migrated_template: str
) -> None:
    """In the thread of the call, of which the Agent's node has told the room; and what they take back later
    is stopped, by whichever node they may do so."""
    async with nodes(postgres_server, migrated_template) as running, AsyncExitStack() as stack:
        home, away, there = await running.start(HOME, AWAY, "there.test")
        here = await place(stack, home, nodes=(AWAY,))
        other = await place(stack, away, rules=ASK, rights=RIGHTS)
        boss = await here.agent("boss", "kitchen")
        hands = await other.computer("hands", OFFICE)
        await boss.until("notify:enter_office")
        await there.rooms.ensure_user(ALICE)
        room_id = await there.rooms.join(f"#office-kitchen:{HOME}", ALICE)
        people = People(here.running, boss, hands, there, room_id)
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        hands.answers["client:tool_call"] = lambda said: asyncio.shield(never)
        calling = asyncio.create_task(boss.call("hands", "asked", seconds=60, a=1, b=2))
        root, question = await people.question("asked")
        assert "client:tool_call" not in [event for event, _ in hands.heard]
        await people.react(ALICE, question, "✅")
        await hands.until("client:tool_call")
        await people.react(ALICE, root, "❌")
        assert await hands.until("notify:tool_call_cancel") == {"agent": "x", "req_id": "asked"}
        never.set_result({"content": [], "isError": True, "meta": {"a2c_cancelled": True}})
        assert (await calling)["isError"]
