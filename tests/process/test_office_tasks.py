"""Offices of a running node, used by its operator: tool calls, and tasks for Agents."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.connectors.offices.calls.tasks import TASK
from bridge.connectors.offices.protocol.events import TOOL_CALL
from bridge.tasks.errors import ErrorCode
from bridge.tasks.view import EXIT_CODES
from tests.bridge.connectors.offices.clients import Client, Clients
from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.support.postgres import Server

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("office tasks")]

OFFICES = """
[offices]
enabled = true
"""
HERE = "kitchen.local"
BOSS, HANDS = f"a/boss@{HERE}", f"a/hands@{HERE}"
DONE = {"content": [{"type": "text", "text": "3"}], "isError": False}


@dataclass
class Hosted:
    """`there` is another node, a peer of this one."""

    node: AgentNode
    there: AgentNode
    token: str

    async def boss(self, clients: Clients, answer: Any) -> Client:
        agent = await clients.agent(token=self.token, declares={"tasks": True})
        agent.answers[TASK] = answer
        await self.node.sees(BOSS)
        return agent

    def clients(self, stack: AsyncExitStack) -> Clients:
        return Clients(self.node.url("", "http"), stack)


@pytest.fixture(scope="module")
async def hosted(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[Hosted]:
    fields: list[dict[str, Any]] = [{"name": HERE, "more": OFFICES}, {"name": "cellar.local"}]
    async with agent_nodes(palaver, postgres_server, migrated_template, *fields) as [one, other]:
        code, said = await one.palaver("offices", "token", "create", "everybody", "--json")
        assert code == 0, said
        yield Hosted(one, other, json.loads(said)["token"])


@pytest.fixture
async def clients(hosted: Hosted) -> AsyncIterator[Clients]:
    async with AsyncExitStack() as stack:
        yield hosted.clients(stack)


async def test_an_operator_calls_a_tool(hosted: Hosted, clients: Clients) -> None:
    """The operator is named in the list of calls; an unknown Computer gives an error."""
    computer = await clients.computer(token=hosted.token)
    computer.answers[TOOL_CALL] = DONE
    assert await hosted.node.palaver("offices", "call", "a", "hands", "add", '{"a": 1, "b": 2}') == (0, "3\n")
    said = await computer.wait_for(TOOL_CALL)
    assert (said["agent"], said["params"]) == (f"operator@{HERE}", {"a": 1, "b": 2})
    code, text = await hosted.node.palaver("offices", "calls", "--json")
    assert code == 0
    [call] = json.loads(text)["calls"]
    assert (call["agent"], call["tool_name"], call["outcome"], call["direct"]) == (
        f"operator@{HERE}", "add", "done", True,
    )  # fmt: skip
    code, _ = await hosted.node.palaver("offices", "call", "a", "eyes", "add")
    assert code == EXIT_CODES[ErrorCode.AGENT_NOT_FOUND]
    assert (await hosted.node.palaver("offices", "call", "a", "hands", "add", "[1]"))[0] == 2


async def test_members_are_found_as_agents(hosted: Hosted, clients: Clients) -> None:
    """While they are connected."""
    computer = await clients.computer(token=hosted.token)
    await hosted.node.sees(HANDS)
    code, text = await hosted.node.palaver("agents", "list", "--json")
    assert code == 0
    [listed] = [one for one in json.loads(text)["agents"] if one["address"] == HANDS]
    assert (listed["runtime"], listed["status"]) == ("a2c-smcp", "idle")
    code, text = await hosted.node.palaver("route", HANDS)
    assert (code, "is an agent of this node" in text) == (0, True)
    await computer.close()
    assert "it has left its office" in await hosted.node.misses(HANDS)


async def test_a_task_reaches_an_agent(hosted: Hosted, clients: Clients) -> None:
    """And a Computer as a tool call."""
    await hosted.boss(clients, lambda said: {"success": True, "output": f"did {said['prompt']}"})
    assert await hosted.node.palaver("task", "send", BOSS, "peel") == (0, "did peel")
    computer = await clients.computer(token=hosted.token)
    computer.answers[TOOL_CALL] = DONE
    await hosted.node.sees(HANDS)
    words = ("task", "send", HANDS, "add", "--metadata", "tool=add", "--metadata", 'params={"a": 1}')
    assert await hosted.node.palaver(*words) == (0, "3")
    assert (await computer.wait_for(TOOL_CALL))["params"] == {"a": 1}
    code, _ = await hosted.node.palaver("task", "send", HANDS, "add")
    assert code == EXIT_CODES[ErrorCode.INVALID_PAYLOAD]


async def test_other_nodes_give_tasks_too(hosted: Hosted, clients: Clients) -> None:
    """They discover the members and their tools."""
    await hosted.boss(clients, lambda said: {"success": True, "output": f"did {said['prompt']}"})
    computer = await clients.computer(token=hosted.token)
    computer.answers[TOOL_CALL] = DONE
    await hosted.there.sees(BOSS, HANDS)
    assert await hosted.there.palaver("task", "send", BOSS, "peel") == (0, "did peel")
    words = ("task", "send", HANDS, "add", "--metadata", "tool=add", "--metadata", 'params={"a": 1}')
    assert await hosted.there.palaver(*words) == (0, "3")
    assert (await computer.wait_for(TOOL_CALL))["agent"] == "operator@cellar.local"


async def test_a_task_never_runs_twice(hosted: Hosted) -> None:
    """The task that was running when the node was killed is answered as interrupted; the queued one runs
    after the Agent has reconnected."""
    node = hosted.node
    async with AsyncExitStack() as stack:
        agent = await hosted.boss(hosted.clients(stack), asyncio.get_running_loop().create_future())
        await node.ask(BOSS, "peel", "begun")
        await agent.wait_for(TASK)
        await node.ask(BOSS, "cut", "waiting")
        await node.kill()
    await node.start()
    answer = (await node.answered("begun"))["answer"]
    assert (answer["error_code"], answer["metadata"]["interrupted"]) == ("NODE_UNREACHABLE", True)
    async with AsyncExitStack() as stack:
        agent = await hosted.boss(hosted.clients(stack), {"success": True, "output": "cut"})
        assert (await agent.wait_for(TASK))["prompt"] == "cut"
        assert (await node.answered("waiting"))["answer"]["output"] == "cut"
        assert not any(event == TASK for event, _ in await agent.unexpected())


async def test_no_program_attaches_as_a_member(hosted: Hosted) -> None:
    """`palaver agent run` gets the reason."""
    (hosted.node.directory / "a").mkdir()
    async with hosted.node.attached("a/eyes") as program:
        assert await asyncio.wait_for(program.wait(), 60) != 0
    assert (await hosted.node.route(f"a/eyes@{HERE}"))["decision"] == "unknown"
