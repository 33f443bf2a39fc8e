"""One office in two processes of one node, with one Postgres and a broker: published clients, the Agent at
one process and the Computer at the other."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.connectors.offices.connector import NOT_CONNECTED
from bridge.connectors.offices.rooms.office_room import member_address
from tests.bridge.connectors.offices.brokers import redis_server, zenoh_router
from tests.process.agent_nodes import TIMEOUT, AgentNode, agent_nodes, beside
from tests.support.postgres import Server
from tests.support.smcp import Peers
from tests.support.smcp.expectations import tools
from tests.support.smcp.walk import STEPS, Expectations, Pair, Step, arrive
from tests.support.smcp.walk_calls import call, walk_call
from tests.support.smcp.walk_membership import come, connect, walk_lost_computer

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("office processes")]

NAME = "kitchen.local"
OFFICES = """
[offices]
enabled = true
broker = "{broker}"
"""


@dataclass
class Hosted:
    one: AgentNode
    other: AgentNode
    token: str

    def expectations(self) -> Expectations:
        return Expectations(
            url=self.one.url("", "http"),
            token=self.token,
            office=f"stove-{secrets.token_hex(4)}",
            agent_id="planner-7",
            computer_url=self.other.url("", "http"),
            computer_token=self.token,
        )


@asynccontextmanager
async def two_processes(
    palaver: Path, server: Server, template: str, broker: str
) -> AsyncIterator[tuple[AgentNode, AgentNode]]:
    made = {"name": NAME, "more": OFFICES.format(broker=broker)}
    async with agent_nodes(palaver, server, template, made) as [one]:
        other = beside(one)
        await other.start()
        try:
            yield one, other
        finally:
            await other.clean_up()


@pytest.fixture(scope="module")
async def hosted(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[Hosted]:
    async with AsyncExitStack() as stack:
        router = await stack.enter_async_context(zenoh_router())
        one, other = await stack.enter_async_context(
            two_processes(palaver, postgres_server, migrated_template, router.address.url)
        )
        yield Hosted(one, other, await token_of(one))


async def token_of(node: AgentNode) -> str:
    code, said = await node.palaver("offices", "token", "create", "everybody", "--json")
    assert code == 0, said
    return str(json.loads(said)["token"])


async def paired(hosted: Hosted, peers: Peers) -> Pair:
    agent, computer = await peers.agent("0.4.2"), await peers.computer("0.4.2")
    pair = Pair(peers, agent, computer, hosted.expectations())
    await pair.walk(arrive)
    return pair


@pytest.fixture(scope="module")
async def pair(hosted: Hosted, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        yield await paired(hosted, peers)


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as made:
        yield made


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_a_step(pair: Pair, step: Step) -> None:
    """As in an office of one process."""
    await pair.walk(step)


async def test_calls_to_a_lost_computer_are_answered(hosted: Hosted, peers: Peers) -> None:
    """At once, also in the other process."""
    await (await paired(hosted, peers)).walk(walk_lost_computer)


async def test_each_process_shows_all_and_calls_all(hosted: Hosted, peers: Peers) -> None:
    """An operator may use either."""
    pair = await paired(hosted, peers)
    x = pair.expectations
    for node in (hosted.one, hosted.other):
        code, said = await node.palaver("offices", "list", "--json")
        assert code == 0, said
        [shown] = [one for one in json.loads(said)["offices"] if one["office_id"] == x.office]
        assert pair.agent.name in str(shown)
        assert pair.computer.name in str(shown)
        words = (x.office, pair.computer.name, await tool(pair), '{"a": 2, "b": 3}')
        code, said = await node.palaver("offices", "call", *words)
        assert (code, said.strip()) == (0, "5")


async def test_a_task_reaches_a_computer_through_either_process(hosted: Hosted, peers: Peers) -> None:
    """The process of the Computer calls it, whichever process received the task."""
    pair = await paired(hosted, peers)
    address = str(member_address(pair.expectations.office, pair.computer.name, NAME))
    given = ("--metadata", f"tool={await tool(pair)}", "--metadata", 'params={"a": 2, "b": 3}')
    for node in (hosted.one, hosted.other):
        await node.sees(address)
        code, said = await node.palaver("task", "send", address, "add", *given, "--timeout", "30")
        assert (code, said.strip()) == (0, "5")


async def tool(pair: Pair) -> str:
    """Return the name of `add` there."""
    return str((await tools(pair.agent, pair.computer))["add"])


async def test_the_computers_process_is_killed_during_a_call(hosted: Hosted, peers: Peers) -> None:
    """The Agent gets an answer from its own process within seconds, and a notification that the Computer has
    left; the Computer rejoins through the other process."""
    pair = await paired(hosted, peers)
    agent, computer, x = pair.agent, pair.computer, pair.expectations
    calling = asyncio.create_task(call(agent, computer, "slow", seconds=100))
    assert await computer.until("tool") == {"word": "begin"}
    await hosted.other.kill()
    async with asyncio.timeout(10):
        assert (await calling)["isError"]
    assert (await agent.until("ack client:tool_call"))["code"] == 404
    assert await agent.until("notify:leave_office") == {"office_id": x.office, "computer": computer.name}
    await hosted.other.start()
    await computer.do("disconnect")
    await connect(computer, x)
    await come(agent, computer, x)
    await pair.walk(walk_call)


async def test_the_agents_process_is_killed_during_a_call(hosted: Hosted, peers: Peers) -> None:
    """The Computer is notified and asked to stop by its own process; the Agent rejoins."""
    pair = await paired(hosted, peers)
    agent, computer, x = pair.agent, pair.computer, pair.expectations
    calling = asyncio.create_task(call(agent, computer, "slow", seconds=100))
    assert await computer.until("tool") == {"word": "begin"}
    await hosted.one.kill()
    async with asyncio.timeout(10):
        left = await computer.until("notify:leave_office")
        assert left == {"office_id": x.office, "agent": agent.name}
        assert (await computer.until("notify:tool_call_cancel"))["req_id"]
        assert await computer.until("tool") == {"word": "cancelled"}
    await hosted.one.start()
    # Published clients do not notice while they wait that their connection has ended; raw ones do.
    calling.cancel()
    await agent.do("disconnect")
    await connect(agent, x)
    await agent.do("join", office=x.office, name=agent.name)
    assert await computer.until("notify:enter_office") == {"office_id": x.office, "agent": agent.name}
    await pair.walk(walk_call)


async def test_two_processes_with_redis(
    palaver: Path, postgres_server: Server, migrated_template: str, peers: Peers, tmp_path: Path
) -> None:
    """With a password, which is only in a file."""
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_server())
        secret = tmp_path / "broker-password"
        secret.write_text(f"{redis.password}\n")
        said = f'{redis.address.url}"\nbroker_password_file = "{secret}'
        one, other = await stack.enter_async_context(two_processes(palaver, postgres_server, migrated_template, said))
        pair = await paired(Hosted(one, other, await token_of(one)), peers)
        await pair.walk(walk_call)
        await pair.walk(walk_lost_computer)
        assert not any(redis.password in str(line) for line in [*one.log, *other.log])


async def test_a_process_without_a_broker_reports_it(
    palaver: Path, postgres_server: Server, migrated_template: str
) -> None:
    """If another process already serves offices of the node."""
    async with two_processes(palaver, postgres_server, migrated_template, "") as (_, other):
        async with asyncio.timeout(TIMEOUT):
            while not any(NOT_CONNECTED in str(line) for line in other.log):
                await asyncio.sleep(0.1)
