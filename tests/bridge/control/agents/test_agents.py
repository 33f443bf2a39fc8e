"""`palaver agents list` and `show`."""

import random

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.updates import StatusUpdate, Unregistration
from bridge.tasks.queue_settings import AgentSettings
from storage.errors import LocalError
from tests.federation.nodes import now_ms
from tests.support.agents import address, registered
from tests.support.operated import Operated


async def _register_agents(node: Operated) -> None:
    now = now_ms()
    await node.local_agents.register("cook", runtime="kimi", capabilities=("cooking",))
    await node.table.update(
        [
            registered("baker@b.test", now, capabilities=("cooking", "baking")),
            registered("coder@a.test", now),
            registered("gone@a.test", now),
        ]
    )
    await node.table.update(
        [
            Unregistration(address("gone@a.test"), "crash", now + 1),
            StatusUpdate(address("coder@a.test"), AgentStatus.BUSY, "task-7", now + 1),
        ]
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ["cook@here.test", "coder@a.test", "baker@b.test"]),
        ({"all": True}, ["cook@here.test", "coder@a.test", "gone@a.test", "baker@b.test"]),
        ({"status": "gone"}, ["gone@a.test"]),
        ({"status": "busy"}, ["coder@a.test"]),
        ({"node": "a.test"}, ["coder@a.test"]),
        ({"capabilities": ["cooking"]}, ["cook@here.test", "baker@b.test"]),
        ({"capabilities": ["cooking", "bak*"]}, ["baker@b.test"]),
        ({"search": "KIMI cook"}, ["cook@here.test"]),
        ({"search": "task-7"}, ["coder@a.test"]),
        ({"search": "nothing"}, []),
    ],
)
async def test_agents_are_filtered(node: Operated, given: dict[str, object], found: list[str]) -> None:
    """By node, status, capability and words. Agents of this node are first; offline agents are listed only on
    request."""
    await _register_agents(node)
    answer = await node.ask("agents-list", **given)
    assert [one["address"] for one in answer["agents"]] == found
    assert answer["total"] == len(found)


async def test_a_list_has_the_total(node: Operated) -> None:
    """Even if not all agents are returned."""
    await _register_agents(node)
    answer = await node.ask("agents-list", limit=1)
    assert ([one["address"] for one in answer["agents"]], answer["total"]) == (["cook@here.test"], 3)
    with pytest.raises(LocalError, match="not a status of an agent"):
        await node.ask("agents-list", status="asleep")


async def test_the_first_of_many_agents_are_returned(node: Operated) -> None:
    """Sorted, however they were registered, with the total."""
    numbers = random.Random(7).sample(range(3_000), 3_000)
    await node.table.update([registered(f"worker-{number:04}@a.test", now_ms()) for number in numbers])
    answer = await node.ask("agents-list", limit=7, search="worker")
    assert [one["agent_id"] for one in answer["agents"]] == [f"worker-{number:04}" for number in range(7)]
    assert answer["total"] == 3_000


async def test_a_local_agent_is_shown(node: Operated) -> None:
    """With its queue, its tasks and its number of tokens."""
    await _register_agents(node)
    node.local_agents.settings_of["cook"] = AgentSettings(1, 5)
    for request_id in ("one", "two"):
        await node.whole("task-send", to="cook", prompt="Cook.", id=request_id)
    await node.given()
    shown = await node.ask("agents-show", agent="cook")
    assert (shown["address"], shown["is_local"], shown["runtime"]) == ("cook@here.test", True, "kimi")
    assert shown["queue"] == {"at_once": 1, "most_waiting": 5, "active": 1, "waiting": 1}
    assert [task["task"] for task in shown["tasks"]] == ["one@here.test", "two@here.test"]
    assert (shown["namespaces"], shown["tokens"], shown["configured"]) == (["default"], 0, False)


async def test_a_remote_agent_is_shown(node: Operated) -> None:
    """With its node's URL and trust, and why it is offline."""
    await _register_agents(node)
    await node.table.set_node("a.test", "http://10.0.0.1:7676", trusted=True)
    shown = await node.ask("agents-show", agent="gone@a.test")
    assert (shown["status"], shown["gone_reason"], shown["queue"]) == ("gone", "crash", None)
    assert (shown["node"]["url"], shown["node"]["trusted"]) == ("http://10.0.0.1:7676", True)
    assert "is offline: crash" in shown["why"]
    busy = await node.ask("agents-show", agent="coder@a.test")
    assert (busy["status"], busy["current_task"]) == ("busy", "task-7")
