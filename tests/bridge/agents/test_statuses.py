"""The statuses of this node's agents."""

from collections.abc import AsyncIterator

import pytest

from bridge.agents.agent import Agent, AgentStatus, StatusInput
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.agents.updates import StatusUpdate, Unregistration
from bridge.tasks.queue_settings import AgentSettings
from storage.database import Database
from tests.support.agents import NOW, Clock, address, registered, routing_table

W = address("w@here")
CROWD = address("crowd@here")


def settings_of(agent: Agent) -> AgentSettings:
    return AgentSettings(parallel=None if agent.agent_id == "crowd" else 1)


@pytest.fixture
async def routes(database: Database) -> AsyncIterator[RoutingTable]:
    async with routing_table(database, now_ms=Clock(NOW + 1)) as routes:
        await routes.update([registered("w@here"), registered("crowd@here"), registered("w@kitchen")])
        yield routes


@pytest.fixture
def statuses(routes: RoutingTable) -> AgentStatuses:
    return AgentStatuses(routes, settings_of=settings_of, now_ms=Clock(NOW + 1))


def known(routes: RoutingTable) -> tuple[AgentStatus, str | None]:
    agent = routes.agent(W)
    assert agent is not None
    return agent.status, agent.current_task


async def test_a_valid_step_is_published(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """With the current task while the agent is busy."""
    assert statuses.apply(W, StatusInput.START, "t")
    await routes._write_pending()
    assert known(routes) == (AgentStatus.BUSY, "t")
    assert statuses.apply(W, StatusInput.COMPLETE)
    await routes._write_pending()
    assert known(routes) == (AgentStatus.IDLE, None)


async def test_consecutive_steps_before_they_are_written(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """A short task starts and ends within the write-behind delay."""
    assert statuses.apply(W, StatusInput.START, "a")
    assert statuses.apply(W, StatusInput.COMPLETE)
    assert statuses.apply(W, StatusInput.START, "b")
    assert statuses.apply(W, StatusInput.ERROR)
    await routes._write_pending()
    assert known(routes) == (AgentStatus.ERROR, None)
    assert statuses._pending == {}, "what was written is known by all"


async def test_an_invalid_step_is_not_published(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """ "only palaver's own agents are held to the table"."""
    assert not statuses.apply(W, StatusInput.COMPLETE)
    assert not statuses.apply(W, StatusInput.RECOVER)
    assert statuses.apply(W, StatusInput.START, "a")
    assert not statuses.apply(W, StatusInput.START, "b"), "it does several, and is busy already"
    await routes._write_pending()
    assert known(routes) == (AgentStatus.BUSY, "a")


async def test_agents_without_a_published_status(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """Agents of other nodes, unknown ones, and those without a limit of concurrent tasks."""
    for name in ("w@kitchen", "nobody@here", "crowd@here"):
        assert not statuses.apply(address(name), StatusInput.START, "t")
    assert statuses.apply(CROWD, StatusInput.SHUTDOWN)


async def test_an_agent_that_is_shut_down_is_offline(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """From every status, and no further step applies."""
    assert statuses.apply(W, StatusInput.START, "t")
    assert statuses.apply(W, StatusInput.SHUTDOWN)
    await routes._write_pending()
    agent = routes.agent(W)
    assert agent is not None
    assert agent.gone_reason == "shutdown"
    assert not statuses.apply(W, StatusInput.START, "t")


async def test_a_later_update_replaces_a_pending_status(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """Of the agent itself or of another process."""
    assert statuses.apply(W, StatusInput.START, "t")
    await routes.update([StatusUpdate(W, AgentStatus.ERROR, None, NOW + 5)])
    assert statuses.apply(W, StatusInput.RECOVER)


async def test_an_agent_that_was_lost_stays_lost(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """Its task fails because of the loss; the status that follows does not bring it back."""
    assert statuses.apply(W, StatusInput.START, "t")
    await routes._write_pending()
    statuses._now_ms = Clock(NOW + 2)
    assert statuses.apply(W, StatusInput.COMPLETE)
    await routes.update([Unregistration(W, "timeout", NOW + 1)])
    await routes._write_pending()
    agent = routes.agent(W)
    assert agent is not None
    assert (agent.is_online, agent.gone_reason) == (False, "timeout")


async def test_closing_ends_the_subscription(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """The routing table may continue."""
    statuses.close()
    assert statuses.apply(W, StatusInput.START, "t")
    await routes._write_pending()
    assert W in statuses._pending
