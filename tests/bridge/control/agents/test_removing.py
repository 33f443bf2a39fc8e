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


async def test_a_local_agent_is_unregistered(node: Operated) -> None:
    """All nodes receive the reason. The answer has the tokens with which the agent can attach again."""
    await node.local_agents.register("worker")
    token, _ = await AgentTokens(node.parts.database, now_ms=now_ms).create("worker", "", None)
    answer = await node.ask("agents-remove", agent="worker", reason="too slow")
    assert (answer["address"], answer["tokens"]) == ("worker@here.test", [token.token_id])
    agent = node.table.agent(address("worker@here.test"))
    assert agent is not None
    assert (agent.is_online, agent.gone_reason) == (False, "too slow")
    with pytest.raises(LocalError, match="is already offline: too slow"):
        await node.ask("agents-remove", agent="worker")
    await node.local_agents.register("worker")
    assert (await node.ask("agents-show", agent="worker"))["status"] == "idle"


async def test_an_agent_in_the_configuration_cannot_be_removed(node: Operated) -> None:
    """It would return at the next start."""
    await node.local_agents.register("fixed")
    with pytest.raises(LocalError, match="the agent fixed because it is in the configuration"):
        await node.ask("agents-remove", agent="fixed")
    agent = node.table.agent(address("fixed@here.test"))
    assert agent is not None
    assert agent.is_online


async def test_a_connector_can_refuse_a_removal(node: Operated) -> None:
    """It would register the agent again at once."""
    parts = replace(node.parts, removal_refusal=lambda agent: LocalError(f"{agent.agent_id} is there.", "Wait."))
    await node.local_agents.register("worker")
    with pytest.raises(LocalError, match="worker is there"):
        await agents_remove(parts, {"agent": "worker"})
    agent = node.table.agent(address("worker@here.test"))
    assert agent is not None
    assert agent.is_online


async def test_a_remote_agent_is_removed_until_it_registers_again(node: Operated) -> None:
    """Its route is removed and its tasks fail, even if the clock of its node is ahead."""
    ahead = now_ms() + 60_000
    await node.table.update([registered("fixed@a.test", ahead)])
    async with node.stream("task-send", to="fixed@a.test", prompt="Do it.", id="one", wait=True) as items:
        await item(items, type="accepted")
        answer = await node.ask("agents-remove", agent="fixed@a.test")
        assert (answer["is_local"], answer["tokens"]) == (False, [])
        result = await item(items, type="result")
    assert (result["state"], result["error_code"]) == (State.FAILED, "AGENT_NOT_FOUND")
    assert (await node.ask("route", address="fixed@a.test"))["decision"] == "unknown"
    await node.table.update([registered("fixed@a.test", ahead + 10_000)])
    assert (await node.ask("route", address="fixed@a.test"))["decision"] == "remote"
