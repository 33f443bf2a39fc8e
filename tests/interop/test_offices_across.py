"""One office on two nodes: published clients, the Agent at one of them and the Computer at the other."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.process.agent_nodes import AgentNode, agent_nodes
from tests.support.postgres import Server
from tests.support.smcp import Peers
from tests.support.smcp.walk import STEPS, Expectations, Pair, Step, arrive
from tests.support.smcp.walk_calls import call, walk_call
from tests.support.smcp.walk_membership import come, connect, walk_lost_computer

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("offices across")]

HOME, AWAY = "kitchen.local", "cellar.local"
OFFICES = """
[offices]
enabled = true
nodes = {nodes}
"""


@dataclass
class Hosted:
    """The office belongs to `home`."""

    home: AgentNode
    away: AgentNode
    tokens: dict[str, str]

    def expectations(self, agent_at: AgentNode) -> Expectations:
        computer_at = self.away if agent_at is self.home else self.home
        return Expectations(
            url=agent_at.url("", "http"),
            token=self.tokens[agent_at.name],
            # It has never had a member: its node creates it when its alias is looked up.
            office=f"stove-{secrets.token_hex(4)}@{HOME}",
            agent_id="planner-7",
            computer_url=computer_at.url("", "http"),
            computer_token=self.tokens[computer_at.name],
        )


async def token_of(node: AgentNode) -> str:
    code, said = await node.palaver("offices", "token", "create", "everybody", "--json")
    assert code == 0, said
    return str(json.loads(said)["token"])


@pytest.fixture(scope="module")
async def hosted(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[Hosted]:
    made = ({"name": HOME, "more": OFFICES.format(nodes=[AWAY])}, {"name": AWAY, "more": OFFICES.format(nodes=[])})
    async with agent_nodes(palaver, postgres_server, migrated_template, *made) as [home, away]:
        at_home, at_away = await asyncio.gather(token_of(home), token_of(away))
        yield Hosted(home, away, {HOME: at_home, AWAY: at_away})


async def paired(hosted: Hosted, peers: Peers, agent_at: AgentNode) -> Pair:
    agent, computer = await peers.agent("0.4.2"), await peers.computer("0.4.2")
    pair = Pair(peers, agent, computer, hosted.expectations(agent_at))
    await pair.walk(arrive)
    return pair


@pytest.fixture(scope="module", params=["an agent at home", "an agent away"])
async def pair(
    hosted: Hosted, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Pair]:
    agent_at = hosted.home if request.param == "an agent at home" else hosted.away
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        yield await paired(hosted, peers, agent_at)


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as made:
        yield made


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_a_step(pair: Pair, step: Step) -> None:
    """As in an office of one node."""
    await pair.walk(step)


async def test_calls_to_a_lost_computer_are_answered(hosted: Hosted, peers: Peers) -> None:
    """At once, also at the other node."""
    await (await paired(hosted, peers, hosted.home)).walk(walk_lost_computer)


async def test_the_computers_node_is_killed_during_a_call(hosted: Hosted, peers: Peers) -> None:
    """The Agent gets its answer at the latest when that node is back; the Computer rejoins, and calls work
    again."""
    pair = await paired(hosted, peers, hosted.home)
    agent, computer, x = pair.agent, pair.computer, pair.expectations
    calling = asyncio.create_task(call(agent, computer, "slow", seconds=100))
    assert await computer.until("tool") == {"word": "begin"}
    await hosted.away.kill()
    await hosted.away.start()
    result = await calling
    assert result["isError"]
    assert (await agent.until("ack client:tool_call"))["code"] == 404
    assert await agent.until("notify:leave_office") == {"office_id": x.office, "computer": computer.name}
    await computer.do("disconnect")
    await connect(computer, x)
    await come(agent, computer, x)
    await pair.walk(walk_call)


async def test_the_agents_node_is_killed_during_a_call(hosted: Hosted, peers: Peers) -> None:
    """The Agent's connection ends with it. When the node is back, the Computer is asked to stop, and the
    Agent rejoins."""
    pair = await paired(hosted, peers, hosted.home)
    agent, computer, x = pair.agent, pair.computer, pair.expectations
    calling = asyncio.create_task(call(agent, computer, "slow", seconds=100))
    assert await computer.until("tool") == {"word": "begin"}
    await hosted.home.kill()
    await hosted.home.start()
    assert await computer.until("notify:leave_office") == {"office_id": x.office, "agent": agent.name}
    assert (await computer.until("notify:tool_call_cancel"))["req_id"]
    assert await computer.until("tool") == {"word": "cancelled"}
    # Published clients do not notice while they wait that their connection has ended; raw ones do.
    calling.cancel()
    await agent.do("disconnect")
    await connect(agent, x)
    await agent.do("join", office=x.office, name=agent.name)
    assert await computer.until("notify:enter_office") == {"office_id": x.office, "agent": agent.name}
    await pair.walk(walk_call)


async def test_a_node_that_is_not_admitted(hosted: Hosted, peers: Peers) -> None:
    """An office of the node that admits no other node."""
    x = replace(hosted.expectations(hosted.home), office=f"wine@{AWAY}")
    computer = await peers.computer("0.4.2")
    await connect(computer, replace(x, computer_url=x.url, computer_token=x.token))
    with pytest.raises(Exception, match="Failed to join office"):
        await computer.do("join", office=x.office)
