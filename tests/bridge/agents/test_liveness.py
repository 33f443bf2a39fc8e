"""Agents that are no longer heard from."""

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
        self.told: list[Agent] = []
        self.failures = 0

    async def __call__(self, lost: Sequence[Agent]) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.told += lost

    def names(self) -> list[str]:
        return sorted(str(agent.address) for agent in self.told)


class Process:
    """A routing table and a watch, on a clock that all processes share."""

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
    """Time passes, in which the process looks as often as it should and some nodes are heard."""
    end = one.clock() + milliseconds
    while one.clock() < end:
        at = await one.watch.check()
        one.clock.now_ms = min(at, end)
        await one.routes.update([NodeHeartbeat(node, one.clock()) for node in beats])
    await one.watch.check()


async def test_agents_of_a_silent_node_are_lost_after_its_time(one: Process) -> None:
    """120 s without a heartbeat; the other nodes and this one are not concerned."""
    await one.routes.update([registered("w@a"), registered("v@b"), registered("me@here")])
    await listen(one, TIMEOUT, "b")
    assert one.announcer.told == []
    await listen(one, 1, "b")
    assert one.announcer.names() == ["w@a"]
    [lost] = one.announcer.told
    assert (lost.gone_reason, lost.gone_at) == ("timeout", NOW + TIMEOUT + 1)
    route = one.routes.route("w@a")
    assert isinstance(route, Unknown)
    assert route.code is ErrorCode.NODE_UNREACHABLE
    assert one.routes.route("me") == Local(address("me@here"))
    await listen(one, 2 * TIMEOUT, "b")
    assert one.announcer.names() == ["w@a"], "it is announced once"


async def test_an_agent_that_speaks_for_itself_is_lost_by_itself(one: Process) -> None:
    """Its node is still there, so that it is the agent that was not found."""
    await one.routes.update(
        [registered("w@here", sends_heartbeats=True), registered("v@here", sends_heartbeats=True)]
    )
    await listen(one, INTERVAL)
    await one.routes.update([AgentHeartbeat(address("v@here"), IDLE, one.clock())])
    await listen(one, TIMEOUT - INTERVAL + 1)
    assert one.announcer.names() == ["w@here"]
    route = one.routes.route("w@here")
    assert isinstance(route, Unknown)
    assert route.code is ErrorCode.AGENT_NOT_FOUND


async def test_the_look_comes_when_the_first_is_due(one: Process) -> None:
    """Not at the next interval: the time to notice is what was promised."""
    await listen(one, TIMEOUT)
    await one.routes.update([registered("w@a", sent_at=one.clock())])
    await listen(one, TIMEOUT - 5)
    assert await one.watch.check() == one.clock() + 6
    await listen(one, 6)
    assert one.announcer.names() == ["w@a"]


async def test_one_of_two_processes_announces(database: Database, one: Process) -> None:
    """Both notice at the same moment."""
    await one.routes.update([registered(f"w{number}@a") for number in range(10)])
    async with process(database, one.clock) as other:
        await listen(one, TIMEOUT)
        one.clock.advance(1)
        await asyncio.gather(one.watch.check(), other.watch.check())
        await asyncio.gather(one.watch.check(), other.watch.check())
        told = sorted(one.announcer.names() + other.announcer.names())
    assert told == [f"w{number}@a" for number in range(10)]


async def test_what_only_another_process_heard_counts(database: Database, one: Process) -> None:
    """Heartbeats are not told around, but whoever would call a node silent looks into the database."""
    await one.routes.update([registered("w@a")])
    async with process(database, one.clock) as other:
        for _ in range(8):
            await listen(one, INTERVAL)
            await other.routes.update([NodeHeartbeat("a", one.clock())])
    await listen(one, INTERVAL)
    assert one.announcer.told == []


async def test_an_announcement_that_fails_is_made_again(database: Database, one: Process) -> None:
    """By whichever process looks next: that it is still to be made is part of the agent's row."""
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
    assert one.announcer.told == []


async def test_a_node_that_was_away_itself_reproaches_nobody(database: Database, one: Process) -> None:
    """Everybody has the whole time again from its return on."""
    await one.routes.update([registered("w@a")])
    await listen(one, INTERVAL)
    one.clock.advance(10 * TIMEOUT)
    async with process(database, one.clock) as again:
        await listen(again, TIMEOUT - 1)
        assert again.announcer.told == []
        await listen(again, 1)
        assert again.announcer.names() == ["w@a"]


async def test_a_quick_restart_loses_no_time(database: Database, one: Process) -> None:
    """A node that is restarted every minute still notices that another one is dead."""
    await one.routes.update([registered("w@a")])
    for _ in range(4):
        await listen(one, INTERVAL)
        one.clock.advance(2_000)
    await one.watch.check()
    assert one.announcer.names() == ["w@a"]


async def test_a_node_that_comes_back_brings_its_agents(one: Process) -> None:
    """The first heartbeat is enough; nobody has to register again."""
    await one.routes.update([registered("w@a")])
    await listen(one, TIMEOUT + 1)
    await one.routes.update([NodeHeartbeat("a", one.clock(), {"w": IDLE})])
    assert not isinstance(one.routes.route("w@a"), Unknown)
    await listen(one, TIMEOUT + INTERVAL)
    assert one.announcer.names() == ["w@a", "w@a"]


async def test_this_node_says_nothing_of_its_agents_by_being_there(one: Process) -> None:
    """Its clock may be put back, and what it says of them next is news all the same."""
    await one.routes.update([registered("me@here")])
    one.clock.advance(1_000)
    await one.watch.check()
    await one.routes.notify_changed()
    busy = StatusUpdate(address("me@here"), AgentStatus.BUSY, "t", NOW + 1)
    [verdict] = await one.routes.update([busy])
    assert isinstance(verdict, Updated)


async def test_those_who_are_gone_are_forgotten_after_a_day(one: Process) -> None:
    """In the database and in the memory."""
    await one.routes.update([registered("w@a")])
    await listen(one, TIMEOUT + 1)
    one.clock.advance(24 * 3_600_000 + 1)
    await one.watch.check()
    assert one.routes.agent(address("w@a")) is None


async def test_it_looks_by_itself(database: Database) -> None:
    """And goes on after a failure."""
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


async def test_an_agent_of_a_new_node_lives_as_long_as_the_node(one: Process) -> None:
    """Also when it has said what it does in the same breath: it sends no heartbeats of its own."""
    await one.watch.start()
    await one.watch.close()
    await one.routes.update(
        [registered("own@here"), StatusUpdate(address("own@here"), IDLE, None, one.clock())]
    )
    await listen(one, 3 * TIMEOUT)
    assert one.routes.route("own@here") == Local(address("own@here"))
    agent = one.routes.agent(address("own@here"))
    assert agent is not None
    assert one.routes.table.last_seen(agent) == one.clock()
