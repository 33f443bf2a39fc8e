"""Agents that stop sending heartbeats."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.liveness import LivenessMonitor
from bridge.agents.routing import Local, Unknown
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import AgentHeartbeat, NodeHeartbeat, StatusUpdate, Updated
from bridge.clock import now_ms
from bridge.tasks.errors import ErrorCode
from storage.database import Database
from tests.support.agents import NOW, Clock, address, registered, routing_table

TIMEOUT = 120_000
INTERVAL = 30_000
IDLE = AgentStatus.IDLE


class Announcer:
    def __init__(self) -> None:
        self.announced: list[Agent] = []
        self.failures = 0

    async def __call__(self, lost: Sequence[Agent]) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.announced += lost

    def names(self) -> list[str]:
        return sorted(str(agent.address) for agent in self.announced)


class Process:
    """A routing table and a liveness monitor, on a clock that all processes share."""

    def __init__(self, routes: RoutingTable, database: Database, clock: Clock) -> None:
        self.routes = routes
        self.clock = clock
        self.announcer = Announcer()
        self.watch = LivenessMonitor(routes, database, now_ms=clock, announce=self.announcer)


@contextlib.asynccontextmanager
async def process(database: Database, clock: Clock) -> AsyncIterator[Process]:
    async with routing_table(database, now_ms=clock) as routes:
        yield Process(routes, database, clock)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def one(database: Database, clock: Clock) -> AsyncIterator[Process]:
    async with process(database, clock) as one:
        yield one


async def listen(one: Process, milliseconds: int, *beats: str) -> None:
    """Let time pass, in which the process checks as often as it should and some nodes send heartbeats."""
    end = one.clock() + milliseconds
    while one.clock() < end:
        at = await one.watch.check()
        one.clock.now_ms = min(at, end)
        await one.routes.update([NodeHeartbeat(node, one.clock()) for node in beats])
    await one.watch.check()


async def test_agents_of_a_silent_node_are_lost(one: Process) -> None:
    """After 120 s without a heartbeat; other nodes and this one are not affected."""
    await one.routes.update([registered("w@a"), registered("v@b"), registered("me@here")])
    await listen(one, TIMEOUT, "b")
    assert one.announcer.announced == []
    await listen(one, 1, "b")
    assert one.announcer.names() == ["w@a"]
    [lost] = one.announcer.announced
    assert (lost.gone_reason, lost.gone_at) == ("timeout", NOW + TIMEOUT + 1)
    route = one.routes.route("w@a")
    assert isinstance(route, Unknown)
    assert route.code is ErrorCode.NODE_UNREACHABLE
    assert one.routes.route("me") == Local(address("me@here"))
    await listen(one, 2 * TIMEOUT, "b")
    assert one.announcer.names() == ["w@a"], "it is announced once"


async def test_an_agent_with_its_own_heartbeats_is_lost_alone(one: Process) -> None:
    """Its node is online, so the error is about the agent."""
    await one.routes.update([registered("w@here", sends_heartbeats=True), registered("v@here", sends_heartbeats=True)])
    await listen(one, INTERVAL)
    await one.routes.update([AgentHeartbeat(address("v@here"), IDLE, one.clock())])
    await listen(one, TIMEOUT - INTERVAL + 1)
    assert one.announcer.names() == ["w@here"]
    route = one.routes.route("w@here")
    assert isinstance(route, Unknown)
    assert route.code is ErrorCode.AGENT_NOT_FOUND


async def test_the_next_check_is_when_the_first_agent_may_be_lost(one: Process) -> None:
    """Not at the next interval, so that the timeout is exact."""
    await listen(one, TIMEOUT)
    await one.routes.update([registered("w@a", sent_at=one.clock())])
    await listen(one, TIMEOUT - 5)
    assert await one.watch.check() == one.clock() + 6
    await listen(one, 6)
    assert one.announcer.names() == ["w@a"]


async def test_one_of_two_processes_announces(database: Database, one: Process) -> None:
    """Both detect the loss at the same moment."""
    await one.routes.update([registered(f"w{number}@a") for number in range(10)])
    async with process(database, one.clock) as other:
        await listen(one, TIMEOUT)
        one.clock.advance(1)
        await asyncio.gather(one.watch.check(), other.watch.check())
        await asyncio.gather(one.watch.check(), other.watch.check())
        announced = sorted(one.announcer.names() + other.announcer.names())
    assert announced == [f"w{number}@a" for number in range(10)]


async def test_heartbeats_received_by_another_process_count(database: Database, one: Process) -> None:
    """Heartbeats cause no notification, but the check reads the database."""
    await one.routes.update([registered("w@a")])
    async with process(database, one.clock) as other:
        for _ in range(8):
            await listen(one, INTERVAL)
            await other.routes.update([NodeHeartbeat("a", one.clock())])
    await listen(one, INTERVAL)
    assert one.announcer.announced == []


async def test_a_failed_announcement_is_repeated(database: Database, one: Process) -> None:
    """By the process that checks next: it is part of the agent's row."""
    await one.routes.update([registered("w@a")])
    one.announcer.failures = 1
    await listen(one, TIMEOUT)
    one.clock.advance(1)
    with pytest.raises(ConnectionError):
        await one.watch.check()
    assert isinstance(one.routes.route("w@a"), Unknown), "the route has ended all the same"
    async with process(database, one.clock) as other:
        await other.watch.check()
        assert other.announcer.names() == ["w@a"]
    await one.watch.check()
    assert one.announcer.announced == []


async def test_after_an_outage_every_agent_has_the_full_timeout(database: Database, one: Process) -> None:
    """From the return of this node."""
    await one.routes.update([registered("w@a")])
    await listen(one, INTERVAL)
    one.clock.advance(10 * TIMEOUT)
    async with process(database, one.clock) as again:
        await listen(again, TIMEOUT - 1)
        assert again.announcer.announced == []
        await listen(again, 1)
        assert again.announcer.names() == ["w@a"]


async def test_a_quick_restart_does_not_restart_the_timeout(database: Database, one: Process) -> None:
    """A node that restarts every minute still detects lost agents."""
    await one.routes.update([registered("w@a")])
    for _ in range(4):
        await listen(one, INTERVAL)
        one.clock.advance(2_000)
    await one.watch.check()
    assert one.announcer.names() == ["w@a"]


async def test_a_heartbeat_brings_a_nodes_agents_back(one: Process) -> None:
    """They need not register again."""
    await one.routes.update([registered("w@a")])
    await listen(one, TIMEOUT + 1)
    await one.routes.update([NodeHeartbeat("a", one.clock(), {"w": IDLE})])
    assert not isinstance(one.routes.route("w@a"), Unknown)
    await listen(one, TIMEOUT + INTERVAL)
    assert one.announcer.names() == ["w@a", "w@a"]


async def test_the_nodes_own_heartbeat_does_not_outdate_its_agents(one: Process) -> None:
    """If its clock is set back, later updates of its agents are still newer."""
    await one.routes.update([registered("me@here")])
    one.clock.advance(1_000)
    await one.watch.check()
    await one.routes.notify_changed()
    busy = StatusUpdate(address("me@here"), AgentStatus.BUSY, "t", NOW + 1)
    [verdict] = await one.routes.update([busy])
    assert isinstance(verdict, Updated)


async def test_offline_agents_are_pruned_after_a_day(one: Process) -> None:
    """From the database and from memory."""
    await one.routes.update([registered("w@a")])
    await listen(one, TIMEOUT + 1)
    one.clock.advance(24 * 3_600_000 + 1)
    await one.watch.check()
    assert one.routes.agent(address("w@a")) is None


async def test_the_monitor_checks_periodically(database: Database) -> None:
    """And continues after an error."""
    noticed = asyncio.Event()
    reports: list[str] = []
    failures = [KeyError("broken")]

    async def announce(lost: Sequence[Agent]) -> None:
        if failures:
            raise failures.pop()
        noticed.set()

    async with routing_table(database, now_ms=now_ms) as routes:
        await routes.update([registered("w@a", sent_at=now_ms())])
        watch = LivenessMonitor(
            routes,
            database,
            now_ms=now_ms,
            timeout_ms=2_000,
            retry_ms=10,
            announce=announce,
            report=lambda sentence, error: reports.append(sentence),
        )
        await watch.start()
        try:
            await noticed.wait()
        finally:
            await watch.close()
        assert len(reports) == 1


async def test_an_agent_of_a_new_node_is_online_as_long_as_the_node(one: Process) -> None:
    """Also if it reported a status at once: it sends no heartbeats of its own."""
    await one.watch.start()
    await one.watch.close()
    await one.routes.update([registered("own@here"), StatusUpdate(address("own@here"), IDLE, None, one.clock())])
    await listen(one, 3 * TIMEOUT)
    assert one.routes.route("own@here") == Local(address("own@here"))
    agent = one.routes.agent(address("own@here"))
    assert agent is not None
    assert one.routes.table.last_seen(agent) == one.clock()
