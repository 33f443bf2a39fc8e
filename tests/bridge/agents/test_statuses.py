"""What the agents of this node do, held to the table."""

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


async def test_a_step_of_the_table_is_said(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """With what it is busy with, and with nothing when it is not."""
    assert statuses.apply(W, StatusInput.START, "t")
    await routes._write_pending()
    assert known(routes) == (AgentStatus.BUSY, "t")
    assert statuses.apply(W, StatusInput.COMPLETE)
    await routes._write_pending()
    assert known(routes) == (AgentStatus.IDLE, None)


async def test_steps_follow_each_other_before_they_are_written(
    routes: RoutingTable, statuses: AgentStatuses
) -> None:
    """A short task begins and ends in less time than that takes."""
    assert statuses.apply(W, StatusInput.START, "a")
    assert statuses.apply(W, StatusInput.COMPLETE)
    assert statuses.apply(W, StatusInput.START, "b")
    assert statuses.apply(W, StatusInput.ERROR)
    await routes._write_pending()
    assert known(routes) == (AgentStatus.ERROR, None)
    assert statuses._pending == {}, "what was written is known by all"


async def test_what_the_table_does_not_have_is_not_said(
    routes: RoutingTable, statuses: AgentStatuses
) -> None:
    """ "only palaver's own agents are held to the table"."""
    assert not statuses.apply(W, StatusInput.COMPLETE)
    assert not statuses.apply(W, StatusInput.RECOVER)
    assert statuses.apply(W, StatusInput.START, "a")
    assert not statuses.apply(W, StatusInput.START, "b"), "it does several, and is busy already"
    await routes._write_pending()
    assert known(routes) == (AgentStatus.BUSY, "a")


async def test_of_whom_nothing_is_said(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """Other nodes' agents, those that nobody knows, and those that take as many tasks as come."""
    for name in ("w@kitchen", "nobody@here", "crowd@here"):
        assert not statuses.apply(address(name), StatusInput.START, "t")
    assert statuses.apply(CROWD, StatusInput.SHUTDOWN)


async def test_an_agent_that_is_shut_down_is_gone(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """From every state; and does nothing any more."""
    assert statuses.apply(W, StatusInput.START, "t")
    assert statuses.apply(W, StatusInput.SHUTDOWN)
    await routes._write_pending()
    agent = routes.agent(W)
    assert agent is not None
    assert agent.gone_reason == "shutdown"
    assert not statuses.apply(W, StatusInput.START, "t")


async def test_what_somebody_else_says_later_counts(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """The agent itself, or another process."""
    assert statuses.apply(W, StatusInput.START, "t")
    await routes.update([StatusUpdate(W, AgentStatus.ERROR, None, NOW + 5)])
    assert statuses.apply(W, StatusInput.RECOVER)


async def test_an_agent_that_was_lost_stays_lost(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """Its task fails because nobody hears of it any more, and what follows is written when it is gone."""
    assert statuses.apply(W, StatusInput.START, "t")
    await routes._write_pending()
    statuses._now_ms = Clock(NOW + 2)
    assert statuses.apply(W, StatusInput.COMPLETE)
    await routes.update([Unregistration(W, "timeout", NOW + 1)])
    await routes._write_pending()
    agent = routes.agent(W)
    assert agent is not None
    assert (agent.is_online, agent.gone_reason) == (False, "timeout")


async def test_at_the_end_it_is_not_told_any_more(routes: RoutingTable, statuses: AgentStatuses) -> None:
    """The routing table may go on."""
    statuses.close()
    assert statuses.apply(W, StatusInput.START, "t")
    await routes._write_pending()
    assert W in statuses._pending
