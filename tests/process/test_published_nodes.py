"""Two Palaver nodes that are configured as published nodes of each other: signed single events over HTTP, as
a node behind an application service uses with all peers. Processes of the installed wheel, created from their
configuration files alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from bridge.tasks.errors import ErrorCode
from bridge.tasks.view import EXIT_CODES
from tests.process.agent_nodes import AgentNode, agent_nodes, until
from tests.support.postgres import Server

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("published nodes")]
KITCHEN, CELLAR = "kitchen.test", "cellar.test"
COOK, MINER = f"cook@{KITCHEN}", f"miner@{CELLAR}"
SILENCE = 8.0
"""Seconds after which a silent node is offline."""


class Pair(NamedTuple):
    """The requester's node, the agent's node, and the agent."""

    asking: AgentNode
    working: AgentNode
    agent: str

    def request(self, name: str) -> str:
        """Return a request number that the other direction does not use."""
        return f"{name}-of-{self.asking.name}"


@pytest.fixture(scope="module")
async def nodes(palaver: Path, postgres_server: Server, migrated_template: str) -> AsyncIterator[list[AgentNode]]:
    """Two nodes with an agent each. A test that kills a node must start it again."""
    kitchen = {"name": KITCHEN, "agents": ["cook"], "is_published": True, "agent_timeout": SILENCE}
    cellar = {"name": CELLAR, "agents": ["miner"], "is_published": True, "agent_timeout": SILENCE}
    async with agent_nodes(palaver, postgres_server, migrated_template, kitchen, cellar) as made:
        yield made


@pytest.fixture(params=[(0, 1, MINER), (1, 0, COOK)], ids=["there", "back"])
async def pair(request: pytest.FixtureRequest, nodes: list[AgentNode]) -> Pair:
    asking, working, agent = request.param
    await nodes[asking].sees(agent)
    return Pair(nodes[asking], nodes[working], agent)


def _waits_for(node: AgentNode, name: str) -> str:
    return f"echo begun; until [ -e {node.work / name} ]; do sleep 0.02; done; echo {name}"


async def test_a_task_runs_on_the_other_node(pair: Pair) -> None:
    """`palaver task send`: the agent's output and exit code are returned, and it ran once."""
    asking, working, agent = pair
    code, output = await asking.palaver("task", "send", agent, "echo to you; exit 7", "--id", pair.request("across"))
    assert (code, output) == (7, "to you\n")
    answer = (await asking.answered(pair.request("across")))["answer"]
    assert (answer["success"], answer["output"], answer["exit_code"]) == (False, "to you\n", 7)
    assert working.begun()[pair.request("across")] == 1


async def test_a_task_is_cancelled(pair: Pair) -> None:
    """The program on the other node is stopped."""
    asking, working, agent = pair
    await asking.ask(agent, _waits_for(working, "never"), pair.request("taken-back"))
    await working.until_begun(pair.request("taken-back"))
    code, _ = await asking.palaver("task", "cancel", pair.request("taken-back"))
    assert code == 0
    assert (await asking.answered(pair.request("taken-back")))["state"] == "cancelled"
    await working.answered(pair.request("taken-back"))
    assert [pair.request("taken-back"), "ends", "0"] not in working.runs()


async def test_a_task_for_an_unknown_agent(pair: Pair) -> None:
    """It is refused at once with its error code."""
    asking, _, agent = pair
    code, said = await asking.palaver("task", "send", f"nobody@{agent.partition('@')[2]}", "hello")
    assert (code, said) == (EXIT_CODES[ErrorCode.AGENT_NOT_FOUND], "")


async def test_the_agents_node_is_killed_during_a_task(pair: Pair) -> None:
    """The running task is answered as lost and does not run again; the queued one runs once."""
    asking, working, agent = pair
    await asking.ask(agent, _waits_for(working, "never"), pair.request("lost"))
    await working.until_begun(pair.request("lost"))
    await asking.ask(agent, "echo late", pair.request("waiting"))
    await until(lambda: working.task(pair.request("waiting")))
    await working.kill()
    await working.start()
    answer = (await asking.answered(pair.request("lost")))["answer"]
    assert (answer["success"], answer["error_code"]) == (False, "NODE_UNREACHABLE")
    answer = (await asking.answered(pair.request("waiting")))["answer"]
    assert (answer["success"], answer["output"]) == (True, "late\n")
    assert (working.begun()[pair.request("lost")], working.begun()[pair.request("waiting")]) == (1, 1)


async def test_the_requesters_node_is_killed_during_a_task(pair: Pair) -> None:
    """The task goes on. After its restart the node receives the answer once."""
    asking, working, agent = pair
    await asking.ask(agent, _waits_for(working, "go-on"), pair.request("patient"))
    await working.until_begun(pair.request("patient"))
    await asking.kill()
    working.go_on("go-on")
    await working.answered(pair.request("patient"))
    await asking.start()
    task = await asking.answered(pair.request("patient"))
    assert (task["state"], task["answer"]["output"]) == ("done", "begun\ngo-on\n")
    await asking.ask(agent, _waits_for(working, "go-on"), pair.request("patient"))
    assert (await asking.task(pair.request("patient")))["finished_at"] == task["finished_at"]
    assert working.begun()[pair.request("patient")] == 1


async def test_a_node_goes_offline_and_returns(pair: Pair) -> None:
    """With its agents; no operator has to act."""
    asking, working, agent = pair
    await working.kill()
    await asking.misses(agent)
    await working.start()
    await asking.sees(agent)
    await asking.ask(agent, "echo back", pair.request("back"))
    assert (await asking.answered(pair.request("back")))["answer"]["output"] == "back\n"


async def test_both_nodes_are_killed_during_tasks(nodes: list[AgentNode]) -> None:
    """Twenty tasks in each direction: each runs at most once, and each is answered."""
    kitchen, cellar = nodes
    await kitchen.sees(MINER)
    await cellar.sees(COOK)
    for number in range(20):
        await kitchen.ask(MINER, f"sleep 0.1; echo {number}", f"down-{number}")
        await cellar.ask(COOK, f"sleep 0.1; echo {number}", f"up-{number}")
    await cellar.until_begun("down-2")
    await cellar.kill()
    await kitchen.kill()
    await cellar.start()
    await kitchen.start()
    for asking, working, name in ((kitchen, cellar, "down"), (cellar, kitchen, "up")):
        done = 0
        for number in range(20):
            task = await asking.answered(f"{name}-{number}")
            answer = task["answer"]
            done += answer["success"]
            if answer["success"]:
                assert answer["output"] == f"{number}\n"
                assert working.begun()[f"{name}-{number}"] == 1
            else:
                assert answer["error_code"] == "NODE_UNREACHABLE", answer
        assert done >= 19, "no more than what was at work is lost"
        assert max(working.begun().values()) == 1
