"""Programs attach themselves as agents, detach, and come back."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.attached.attached import CONNECTOR, AttachedLimits
from bridge.agents.attached.session import Program
from bridge.agents.updates import Unregistration
from bridge.config.agents import Agent
from bridge.connectors.offices.calls.member_agents import why_reserved
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.task import State
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.bridge.agents.agent_node import AgentNode, agent_node
from tests.support.agents import NOW, Clock, address, registered

DONE = Answer(True, "done", 0)


def program(session: str = "session-1", parallel: int = 1, queue: int = 100) -> Program:
    return Program(session, "token-1", "claude", ("coding",), parallel, queue)


async def attach(
    node: AgentNode, session: str = "session-1", working: Mapping[str, int] | None = None, **changed: int
) -> Mapping[str, int]:
    return await node.attached.register("worker", program(session, **changed), working or {})


async def begun(node: AgentNode, request_id: str = "a", session: str = "session-1") -> tuple[str, int]:
    """A task that the program has begun."""
    await node.ask(request_id)
    task, _ = await node.work.take("worker", session, 30.0, [])
    assert task is not None
    assert await node.work.begin(node.attached.session("worker", session), task.work_id, task.attempt)
    return task.work_id, task.attempt


async def test_a_program_becomes_an_agent(database: Database, tmp_path: Path) -> None:
    """With an address, and with its capabilities."""
    async with agent_node(database, tmp_path) as node:
        assert await attach(node, parallel=3, queue=7) == {}
        agent = node.routes.agent(address("worker@here"))
        assert agent is not None
        assert (agent.connector, agent.runtime, agent.capabilities) == (CONNECTOR, "claude", ("coding",))
        assert (agent.status, agent.last_seen) == (AgentStatus.IDLE, NOW)
        assert node.attached.settings(agent) == AgentSettings(3, 7)
        assert node.attached.settings(agent._replace(agent_id="other")) == AgentSettings(1, 100)
        assert node.attached.settings(agent._replace(connector="cis")) is None


async def test_a_program_cannot_replace_another_agent(database: Database, tmp_path: Path) -> None:
    """Neither one that the node runs itself nor one of another connector."""
    async with agent_node(database, tmp_path, [Agent(id="worker", command=["true"])]) as node:
        await node.routes.update([registered("other@here")])
        for agent_id in ("worker", "other"):
            with pytest.raises(MatrixError, match="runs an agent with this id"):
                await node.attached.register(agent_id, program(), {})


async def test_an_address_may_be_reserved(database: Database, tmp_path: Path) -> None:
    """Also while the other agent is offline; the error says for what."""
    async with agent_node(database, tmp_path, reserved_for=why_reserved) as node:
        with pytest.raises(MatrixError, match="address of boss in the office a: choose an id without"):
            await node.attached.register("a/boss", program(), {})
        await node.attached.register("a/b/c", program(), {})
        assert node.routes.agent(address("a/boss@here")) is None


async def test_the_number_of_attached_agents_is_limited(database: Database, tmp_path: Path) -> None:
    """An attached agent may register again."""
    async with agent_node(database, tmp_path, limits=AttachedLimits(max_agents=1)) as node:
        await attach(node)
        with pytest.raises(MatrixError, match="Too many"):
            await node.attached.register("other", program(), {})
        await attach(node, "session-2")


async def test_a_new_session_replaces_the_old_one(database: Database, tmp_path: Path) -> None:
    """It gets the pending tasks. Tasks that the old one has begun fail at once, and the old one is told to
    stop."""
    async with agent_node(database, tmp_path) as node:
        await attach(node, parallel=2)
        work_id, attempt = await begun(node, "a")
        await node.ask("b")
        offered, _ = await node.work.take("worker", "session-1", 30.0, [])
        assert offered is not None
        old = node.attached.session("worker", "session-1")
        await attach(node, "session-2")
        lost = await node.answered()
        assert lost.key.request_id == "a"
        assert lost.answer is not None
        assert (lost.answer.error_code, lost.answer.metadata["interrupted"]) == (ErrorCode.NODE_UNREACHABLE, True)
        with pytest.raises(MatrixError, match="is attached as this agent") as refused:
            node.attached.session("worker", "session-1")
        assert refused.value.status == 409
        assert old.has_ended
        task, _ = await node.work.take("worker", "session-2", 30.0, [])
        assert task is not None
        assert (task.work_id, task.task_id) == (offered.work_id, "task-b")
        # Messages of the old session are refused.
        assert not await node.work.finish(old, work_id, attempt, DONE)


async def test_registering_again_loses_nothing(database: Database, tmp_path: Path) -> None:
    """With the same session: its description changes, and its tasks continue."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        work_id, attempt = await begun(node)
        assert await attach(node, parallel=5, working={work_id: attempt, "99": 1}) == {work_id: attempt}
        assert await attach(node, parallel=5) == {}
        session = node.attached.session("worker", "session-1")
        assert session.attachment.parallel == 5
        assert await node.work.finish(session, work_id, attempt, DONE)
        assert (await node.answered()).answer == DONE


async def test_tasks_survive_a_restart_of_the_node(database: Database, tmp_path: Path) -> None:
    """The program answers its begun tasks to the new process; a task that was being offered is offered
    again."""
    async with agent_node(database, tmp_path, killed=True) as node:
        await attach(node, parallel=2)
        work_id, attempt = await begun(node, "a")
        await node.ask("b")
        assert (await node.work.take("worker", "session-1", 30.0, []))[0] is not None
    async with agent_node(database, tmp_path) as node:
        with pytest.raises(MatrixError, match="not attached"):
            node.attached.session("worker", "session-1")
        kept = await attach(node, parallel=2, working={work_id: attempt, "99": 1})
        assert kept == {work_id: attempt}
        session = node.attached.session("worker", "session-1")
        assert await node.work.finish(session, work_id, attempt, DONE)
        assert (await node.answered()).key.request_id == "a"
        task, _ = await node.work.take("worker", "session-1", 30.0, [])
        assert task is not None
        assert task.task_id == "task-b"


async def test_tasks_of_a_replaced_program_fail(database: Database, tmp_path: Path) -> None:
    """Another program of the agent registers: what the first one had begun fails."""
    async with agent_node(database, tmp_path, killed=True) as node:
        await attach(node)
        await begun(node)
    async with agent_node(database, tmp_path) as node:
        await attach(node, "session-2")
        assert (await node.answered()).state is State.FAILED


async def test_unregistering(database: Database, tmp_path: Path) -> None:
    """The agent is offline for the given reason; its begun and queued tasks fail."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        await begun(node, "a")
        await node.ask("b")
        await node.attached.unregister("worker", "session-1", "the end of the day")
        assert {(await node.answered()).state for _ in "ab"} == {State.FAILED}
        agent = node.routes.agent(address("worker@here"))
        assert agent is not None
        assert agent.gone_reason == "the end of the day"
        assert not node.attached.is_attached("worker")
        await node.attached.unregister("worker", "session-1", "again")


async def test_unregistering_after_a_restart(database: Database, tmp_path: Path) -> None:
    """The program need not register first. But only the newest session may unregister the agent."""
    async with agent_node(database, tmp_path, killed=True) as node:
        await attach(node)
    async with agent_node(database, tmp_path) as node:
        await node.attached.unregister("worker", "session-1", "shutdown")
        agent = node.routes.agent(address("worker@here"))
        assert agent is not None
        assert not agent.is_online
        await attach(node, "session-2")
        with pytest.raises(MatrixError, match="is attached as this agent"):
            await node.attached.unregister("worker", "session-1", "shutdown")


async def test_an_agent_that_timed_out_must_register_again(database: Database, tmp_path: Path) -> None:
    """Its tasks have failed meanwhile."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        await begun(node)
        await node.routes.update([Unregistration(address("worker@here"), "timeout", NOW)])
        assert (await node.answered()).state is State.FAILED
        with pytest.raises(MatrixError, match="not attached"):
            node.attached.session("worker", "session-1")
        await attach(node)
        assert (await node.status_is(AgentStatus.IDLE)).is_online


async def test_revoking_a_token_detaches_its_agent(database: Database, tmp_path: Path) -> None:
    """At once, and no other session."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        await node.attached.register("other", Program("session-2", "token-2", "x", ()), {})
        node.attached.detach_revoked("token-1")
        agent = await node.status_is(AgentStatus.SHUTDOWN)
        assert agent.gone_reason == "token revoked"
        assert not node.attached.is_attached("worker")
        assert node.attached.is_attached("other")


async def test_a_status_follows_the_transition_table(database: Database, tmp_path: Path) -> None:
    """A failed agent gets no tasks until it has recovered."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        session = node.attached.session("worker", "session-1")
        node.attached.set_status(session, has_failed=True)
        await node.status_is(AgentStatus.ERROR)
        await node.ask("a")
        refused = (await node.answered()).answer
        assert refused is not None
        assert refused.error_code is ErrorCode.AGENT_BUSY
        node.attached.set_status(session, has_failed=False)
        await node.status_is(AgentStatus.IDLE)


async def test_a_stopping_node_offers_no_tasks(database: Database, tmp_path: Path) -> None:
    """The program asks again, and the next process answers."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        node.attached.stop()
        with pytest.raises(MatrixError, match="stopping") as refused:
            await attach(node)
        assert refused.value.status == 503
        with pytest.raises(MatrixError, match="stopping"):
            await node.work.take("worker", "session-1", 30.0, [])


async def test_a_program_can_register_after_the_clock_was_set_back(database: Database, tmp_path: Path) -> None:
    """By less than the tolerance of others: the new update must be newer than the last one."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
    async with agent_node(database, tmp_path, clock=Clock(NOW - 200_000)) as node:
        await attach(node, "session-2")
        assert node.attached.is_attached("worker")
