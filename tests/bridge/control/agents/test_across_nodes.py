"""The operator of one node and an agent of another."""

import asyncio

from bridge.control.agents.commands import PROTOCOL, CommandContext, OperatorReply
from bridge.observability.live_feed import LiveFeed
from bridge.tasks.answer import Answer
from tests.bridge.connectors.cis.cis_nodes import LOCAL, CisNode, cis_nodes
from tests.federation.nodes import now_ms
from tests.support.operated import Operated, RecordingObserver
from tests.support.postgres import Server


def _operator(node: CisNode) -> Operated:
    """The operator's commands of a node that was created without them."""
    reply, feed = OperatorReply(), LiveFeed(now_ms=now_ms)
    ports = node.core.tasks._ports
    assert isinstance(ports.replies, dict)
    ports.replies[PROTOCOL] = reply
    parts = CommandContext(
        node_id=node.name,
        database=node.node.database,
        routes=node.core.table,
        tasks=node.core.tasks,
        local=node.core.local,
        replies=reply,
        feed=feed,
        configured=(),
        now_ms=now_ms,
    )
    return Operated(parts, node.core, node.local_agents, RecordingObserver(feed))


async def test_a_task_can_be_sent_to_an_agent_of_another_node(postgres_server: Server, migrated_template: str) -> None:
    """The agent is listed and has a route, and its progress and answer arrive at the waiting command."""
    async with cis_nodes(postgres_server, migrated_template) as nodes:
        here, there = await nodes.start_peers("here.test", "there.test")
        await there.local_agents.register("cook")
        await here.wait_online("cook@there.test")
        operator = _operator(here)
        shown = await operator.ask("agents-show", agent="cook")
        assert (shown["address"], shown["is_local"], shown["connector"] != LOCAL) == ("cook@there.test", False, True)
        assert (await operator.ask("route", address="cook@there.test"))["decision"] == "remote"
        waiting = asyncio.create_task(
            operator.whole("task-send", to="cook@there.test", prompt="Cook.", id="one", wait=True)
        )
        task = await there.given()
        assert str(task.request.from_address) == "operator@here.test"
        await there.local_agents.run(task, Answer(False, "burnt", 7), {"message": "halfway"})
        items = await waiting
        assert "halfway" in [one["text"] for one in items if one["type"] == "progress"]
        assert (items[-1]["output"], items[-1]["exit"]) == ("burnt", 7)
