"""One office on two nodes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.connectors.offices.federated.messages import RESPONSE
from bridge.connectors.offices.settings import ApprovalRule
from tests.bridge.connectors.offices.calls.test_approvals import ALICE, ASK, RIGHTS, ApprovalSetup
from tests.bridge.connectors.offices.clients import TIMEOUT, Client, Running
from tests.bridge.connectors.offices.connectors import offices_of
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

HOME, AWAY = "home.test", "away.test"
OFFICE = f"kitchen@{HOME}"


@dataclass
class Site:
    node: Node
    running: Running
    token: str

    async def agent(self, name: str, office: str) -> Client:
        return await self.running.agent(name, office, token=self.token)

    async def computer(self, name: str, office: str) -> Client:
        return await self.running.computer(name, office, token=self.token)


@dataclass
class Sites:
    home: Site
    away: Site


async def site(stack: AsyncExitStack, node: Node, **settings: Any) -> Site:
    running, _, tokens = await stack.enter_async_context(offices_of(node, is_shared=True, **settings))
    return Site(node, running, await tokens.create("all", ["agent", "computer"]))


@pytest.fixture
async def sites(postgres_server: Server, migrated_template: str) -> AsyncIterator[Sites]:
    async with nodes(postgres_server, migrated_template) as running, AsyncExitStack() as stack:
        home, away = await running.start(HOME, AWAY)
        yield Sites(await site(stack, home, nodes=(AWAY,)), await site(stack, away))


def adds(payload: Any) -> Any:
    text = str(payload["params"]["a"] + payload["params"]["b"])
    return {"content": [{"type": "text", "text": text}], "isError": False, "structuredContent": {"sum": 1.5}}


async def listed(client: Client, office: str, *names: str) -> dict[str, Any]:
    """Wait until the office has exactly these members."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            answer = await client.list_room(office)
            there = {one["name"]: one for one in answer["sessions"]}
            if set(there) == set(names):
                return there
            await asyncio.sleep(0.02)


async def event_of_type(node: Node, type_: str) -> None:
    """Wait until the node has an event of this type."""
    position = 0
    async with asyncio.timeout(TIMEOUT):
        while True:
            for entry in await node.graph.stream.reader(position).next():
                position = entry.position
                if entry.event.type == type_:
                    return


async def test_a_local_agent_and_a_remote_computer(sites: Sites) -> None:
    """Notifications, lists and answers arrive, and each client receives the office id that it uses."""
    boss = await sites.home.agent("boss", "kitchen")
    hands = await sites.away.computer("hands", OFFICE)
    hands.answers["client:tool_call"] = adds
    assert await boss.wait_for("notify:enter_office") == {"office_id": "kitchen", "computer": "hands"}
    there = await listed(boss, "kitchen", "boss", "hands")
    assert (there["hands"]["office_id"], there["hands"]["a2c_version"]) == ("kitchen", "0.4.0")
    answer = await boss.call("hands", a=1, b=2)
    assert answer["content"] == [{"type": "text", "text": "3"}]
    assert answer["structuredContent"] == {"sum": 1.5}
    await hands.emit("server:update_tool_list", {"computer": "hands"})
    assert await boss.wait_for("notify:update_tool_list") == {"computer": "hands"}
    await hands.leave(OFFICE)
    assert await boss.wait_for("notify:leave_office") == {"office_id": "kitchen", "computer": "hands"}
    gone = await boss.call("hands", a=1, b=2)
    assert gone["code"] == 404


async def test_a_remote_agent_and_a_local_computer(sites: Sites) -> None:
    """The office's name and its name with the node are one office."""
    hands = await sites.home.computer("hands", OFFICE)
    hands.answers["client:tool_call"] = adds
    hands.answers["client:get_config"] = {"servers": {"x": {"env": {"KEY": "secret"}}}}
    boss = await sites.away.agent("boss", OFFICE)
    assert await hands.wait_for("notify:enter_office") == {"office_id": OFFICE, "agent": "boss"}
    answer = await boss.call("hands", a=1, b=2)
    assert answer["content"] == [{"type": "text", "text": "3"}]
    config = await boss.request("client:get_config", {"agent": "x", "req_id": "c", "computer": "hands"})
    assert config == {"servers": {"x": {"env": {"KEY": "secret"}}}}
    second = await sites.home.running.client(token=sites.home.token)
    assert await second.join("agent", "second", "kitchen") == [False, "Room already has an agent"]
    taken = await sites.home.running.client(token=sites.home.token)
    assert await taken.join("computer", "boss", "kitchen") == [False, "Name 'boss' is taken in the office"]


async def test_two_agents_join_while_the_nodes_are_disconnected(sites: Sites) -> None:
    """State resolution picks one of them, on both nodes alike. The other is evicted and learns the reason."""
    home, away = sites.home, sites.away
    here = await home.computer("hands", "kitchen")
    there = await away.computer("feet", OFFICE)
    for hands in (here, there):
        hands.answers["client:tool_call"] = adds
    await listed(here, "kitchen", "hands", "feet")
    await listed(there, OFFICE, "hands", "feet")
    home.node.is_down = away.node.is_down = True
    agents = [await home.agent("boss", "kitchen"), await away.agent("chief", OFFICE)]
    home.node.is_down = away.node.is_down = False
    # New events make the nodes send their queues again.
    await here.emit("server:update_desktop", {"computer": "hands"})
    await there.emit("server:update_desktop", {"computer": "feet"})

    async def agents_of(client: Client, office: str) -> set[str]:
        answer = await client.list_room(office)
        return {one["name"] for one in answer["sessions"] if one["role"] == "agent"}

    async with asyncio.timeout(TIMEOUT):
        while True:
            names = [await agents_of(here, "kitchen"), await agents_of(there, OFFICE)]
            if names[0] == names[1] and len(names[0]) == 1:
                break
            await asyncio.sleep(0.05)
    [name] = names[0]
    kept, lost = agents if name == "boss" else agents[::-1]
    other, office = ("chief", OFFICE) if name == "boss" else ("boss", "kitchen")
    assert await lost.wait_for("notify:leave_office") == {"office_id": office, "agent": other}
    refused = await lost.call("hands", a=1, b=2)
    assert refused["code"] == 404
    assert "the seat of the Agent has been taken by" in refused["details"]["reason"]
    for computer in ("hands", "feet"):
        answer = await kept.call(computer, a=1, b=2)
        assert answer["content"] == [{"type": "text", "text": "3"}]
    assert await lost.join("agent", other, office) == [False, "Room already has an agent"]


async def test_a_large_answer_and_a_large_request(sites: Sites) -> None:
    """Content that does not fit into an event is sent as an encrypted file."""
    boss = await sites.home.agent("boss", "kitchen")
    hands = await sites.away.computer("hands", OFFICE)
    await boss.wait_for("notify:enter_office")
    blob = "x" * 300_000
    hands.answers["client:get_blob"] = {"blob": blob, "req_id": "b"}
    hands.answers["client:put_blob"] = lambda payload: {"length": len(payload["blob"])}
    payload = {"agent": "x", "req_id": "b", "computer": "hands"}
    got = await boss.request("client:get_blob", {**payload, "blob_handle": "h"})
    assert got == {"blob": blob, "req_id": "b"}
    put = {**payload, "chunk_offset": 0, "eof": True, "blob": blob}
    assert await boss.request("client:put_blob", put) == {"length": len(blob)}


async def test_a_call_is_cancelled_across_nodes(sites: Sites) -> None:
    """By the Agent, and when the Agent leaves."""
    boss = await sites.home.agent("boss", "kitchen")
    hands = await sites.away.computer("hands", OFFICE)
    await boss.wait_for("notify:enter_office")
    release: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def slowly(payload: Any) -> Any:
        return await asyncio.shield(release)

    hands.answers["client:tool_call"] = slowly
    calling = asyncio.create_task(boss.call("hands", "first", seconds=60))
    await hands.wait_for("client:tool_call")
    await boss.emit("server:tool_call_cancel", {"agent": "x", "req_id": "first"})
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "first"}
    release.set_result({"content": [], "isError": True, "meta": {"a2c_cancelled": True}})
    assert (await calling)["meta"] == {"a2c_cancelled": True}

    release = asyncio.get_running_loop().create_future()
    calling = asyncio.create_task(boss.call("hands", "second", seconds=60))
    await hands.wait_for("client:tool_call")
    await boss.leave("kitchen")
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "second"}
    await calling


async def test_a_call_is_answered_if_its_computer_disconnects(sites: Sites) -> None:
    """The caller does not wait for the timeout."""
    boss = await sites.home.agent("boss", "kitchen")
    hands = await sites.away.computer("hands", OFFICE)
    await boss.wait_for("notify:enter_office")
    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", seconds=60))
    await hands.wait_for("client:tool_call")
    await hands.io.disconnect()
    answer = await calling
    assert answer["code"] == 404


async def test_an_office_admits_only_configured_nodes(sites: Sites) -> None:
    """A member of another node can neither join it nor list its members."""
    await sites.away.computer("hands", "cellar")
    stranger = await sites.home.running.client(token=sites.home.token)
    async with asyncio.timeout(TIMEOUT):
        while True:
            joined, reason = await stranger.join("agent", "boss", f"cellar@{AWAY}")
            assert not joined
            if "no such office" not in reason.lower():  # its room is created a moment after the join
                break
    assert AWAY in reason
    assert await stranger.list_room(f"cellar@{AWAY}") == {"code": 403, "message": "Not in office"}


async def test_an_unknown_office_cannot_be_joined(sites: Sites) -> None:
    """Whether its node answers or not. The refusal leaves nothing behind."""
    client = await sites.away.running.client(token=sites.away.token)
    joined, reason = await client.join("agent", "boss", f"nowhere@{HOME}")
    assert not joined
    assert "no such office" in reason.lower(), reason
    joined, reason = await client.join("agent", "boss", "kitchen@unknown.test")
    assert not joined
    assert await client.join("agent", "boss", "own") == [True, None]


async def test_the_nodes_are_disconnected_during_a_call(sites: Sites) -> None:
    """The answer arrives after they are connected again. If the call times out before, the Agent gets a
    result that says so, and the Computer receives the cancel later."""
    home, away = sites.home, sites.away
    boss = await home.agent("boss", "kitchen")
    hands = await away.computer("hands", OFFICE)
    await boss.wait_for("notify:enter_office")
    release: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(release)
    calling = asyncio.create_task(boss.call("hands", "first", seconds=600))
    await hands.wait_for("client:tool_call")
    home.node.is_down = away.node.is_down = True
    release.set_result({"content": [{"type": "text", "text": "late"}], "isError": False})
    await event_of_type(away.node, RESPONSE)
    assert not calling.done()
    home.node.is_down = away.node.is_down = False
    await hands.emit("server:update_desktop", {"computer": "hands"})
    assert (await calling)["content"][0]["text"] == "late"

    never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
    calling = asyncio.create_task(boss.call("hands", "second", seconds=1))
    await hands.wait_for("client:tool_call")
    home.node.is_down = away.node.is_down = True
    answer = await calling
    assert answer["meta"] == {"a2c_timeout": True}
    home.node.is_down = away.node.is_down = False
    await boss.request("client:get_tools", {"agent": "x", "req_id": "t", "computer": "hands"})
    assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "second"}


async def test_rules_of_the_computers_node_apply(postgres_server: Server, migrated_template: str) -> None:
    """It can deny a call that the Agent's node allows."""
    rules = (ApprovalRule(tool="add", approval="deny"),)
    async with nodes(postgres_server, migrated_template) as running, AsyncExitStack() as stack:
        home, away = await running.start(HOME, AWAY)
        here = await site(stack, home, nodes=(AWAY,))
        there = await site(stack, away, rules=rules)
        boss = await here.agent("boss", "kitchen")
        hands = await there.computer("hands", OFFICE)
        await boss.wait_for("notify:enter_office")
        answer = await boss.call("hands", a=1, b=2)
        assert answer["isError"]
        assert "client:tool_call" not in [event for event, _ in hands.received]


async def test_people_approve_on_the_computers_node(postgres_server: Server, migrated_template: str) -> None:
    """The question is in the thread of the call's message, which the Agent's node has sent. People can cancel
    the call later."""
    async with nodes(postgres_server, migrated_template) as running, AsyncExitStack() as stack:
        home, away, there = await running.start(HOME, AWAY, "there.test")
        here = await site(stack, home, nodes=(AWAY,))
        other = await site(stack, away, rules=ASK, rights=RIGHTS)
        boss = await here.agent("boss", "kitchen")
        hands = await other.computer("hands", OFFICE)
        await boss.wait_for("notify:enter_office")
        await there.rooms.ensure_user(ALICE)
        room_id = await there.rooms.join(f"#office-kitchen:{HOME}", ALICE)
        people = ApprovalSetup(here.running, boss, hands, there, room_id)
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        hands.answers["client:tool_call"] = lambda payload: asyncio.shield(never)
        calling = asyncio.create_task(boss.call("hands", "asked", seconds=60, a=1, b=2))
        root, question = await people.question("asked")
        assert "client:tool_call" not in [event for event, _ in hands.received]
        await people.react(ALICE, question, "✅")
        await hands.wait_for("client:tool_call")
        await people.react(ALICE, root, "❌")
        assert await hands.wait_for("notify:tool_call_cancel") == {"agent": "x", "req_id": "asked"}
        never.set_result({"content": [], "isError": True, "meta": {"a2c_cancelled": True}})
        assert (await calling)["isError"]
