"""`palaver agents remove`."""

from dataclasses import replace

import pytest

from bridge.agents.attached.tokens import AgentTokens
from bridge.control.agents.agents import agents_remove
from bridge.tasks.task import State
from storage.errors import LocalError
from tests.federation.nodes import now_ms
from tests.support.agents import address, registered
from tests.support.operated import Operated, item


async def test_an_agent_of_this_node_is_unregistered(node: Operated) -> None:
    """With a reason that everybody is told; its tokens are named, for it may come back with one."""
    await node.hands.come("worker")
    token, _ = await AgentTokens(node.parts.database, now_ms=now_ms).create("worker", "", None)
    answer = await node.ask("agents-remove", agent="worker", reason="too slow")
    assert (answer["address"], answer["tokens"]) == ("worker@here.test", [token.token_id])
    agent = node.table.agent(address("worker@here.test"))
    assert agent is not None
    assert (agent.is_here, agent.gone_reason) == (False, "too slow")
    with pytest.raises(LocalError, match="has gone already: too slow"):
        await node.ask("agents-remove", agent="worker")
    await node.hands.come("worker")
    assert (await node.ask("agents-show", agent="worker"))["status"] == "idle"


async def test_what_the_configuration_names_stays(node: Operated) -> None:
    """It would be back with the next start."""
    await node.hands.come("fixed")
    with pytest.raises(LocalError, match="The configuration names the agent fixed"):
        await node.ask("agents-remove", agent="fixed")
    agent = node.table.agent(address("fixed@here.test"))
    assert agent is not None
    assert agent.is_here


async def test_what_a_connector_keeps_stays(node: Operated) -> None:
    """It would be told of again at once."""
    kept = replace(node.parts, kept=lambda agent: LocalError(f"{agent.agent_id} is there.", "Wait."))
    await node.hands.come("worker")
    with pytest.raises(LocalError, match="worker is there"):
        await agents_remove(kept, {"agent": "worker"})
    agent = node.table.agent(address("worker@here.test"))
    assert agent is not None
    assert agent.is_here


async def test_an_agent_of_another_node_is_forgotten_until_it_registers_anew(node: Operated) -> None:
    """No route leads to it any more, and what it was given fails; even if its node's clock is ahead."""
    ahead = now_ms() + 60_000
    await node.table.take([registered("fixed@a.test", ahead)])
    async with node.stream("task-send", to="fixed@a.test", prompt="Do it.", id="one", wait=True) as items:
        await item(items, type="accepted")
        answer = await node.ask("agents-remove", agent="fixed@a.test")
        assert (answer["is_local"], answer["tokens"]) == (False, [])
        result = await item(items, type="result")
    assert (result["state"], result["error_code"]) == (State.FAILED, "AGENT_NOT_FOUND")
    assert (await node.ask("route", address="fixed@a.test"))["decision"] == "unknown"
    await node.table.take([registered("fixed@a.test", ahead + 10_000)])
    assert (await node.ask("route", address="fixed@a.test"))["decision"] == "remote"
