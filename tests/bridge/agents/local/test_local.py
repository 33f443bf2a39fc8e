"""All agents of a node."""

from pathlib import Path

from bridge.agents.agent import AgentStatus
from bridge.agents.attached.attached import CONNECTOR as ATTACHED
from bridge.agents.attached.session import Program
from bridge.agents.local.configured import CONNECTOR as CONFIGURED
from bridge.config.agents import Agent
from bridge.tasks.answer import Answer
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.task import State
from storage.database import Database
from tests.bridge.agents.agent_node import agent_node


async def test_both_kinds_of_agents(database: Database, tmp_path: Path) -> None:
    """Each connector delivers to its own agents; after the stop configured agents are offline, attached ones
    are not."""
    worker = Agent(id="worker", command=["echo", "done"], queue=3, namespaces=["cooks", "all"], display_name="The cook")
    async with agent_node(database, tmp_path, [worker]) as node:
        assert set(node.local.deliveries) == {CONFIGURED, ATTACHED}
        await node.attached.register("other", Program("session-1", "t", "x", (), queue=5), {})
        for agent_id, settings in (("worker", AgentSettings(1, 3)), ("other", AgentSettings(1, 5))):
            agent = await node.status_is(AgentStatus.IDLE, f"{agent_id}@here")
            assert node.local.settings(agent) == settings
            assert node.local.settings(agent._replace(connector="cis", agent_id="third")) is None
            cooks = agent_id == "worker"
            assert list(node.local.namespaces(agent)) == (["cooks", "all"] if cooks else ["default"])
            assert node.local.display_name(agent) == ("The cook" if cooks else None)
        await node.ask("a")
        await node.ask("b", "other@here")
        task, _ = await node.work.take("other", "session-1", 60.0, [])
        assert task is not None
        session = node.attached.session("other", "session-1")
        await node.work.finish(session, task.work_id, task.attempt, Answer(True, "done", 0))
        assert [(await node.answered()).state for _ in "ab"] == [State.DONE, State.DONE]
    agents = node.routes.table.agents_of("here")
    assert {agent_id: agent.is_online for agent_id, agent in agents.items()} == {"worker": False, "other": True}
