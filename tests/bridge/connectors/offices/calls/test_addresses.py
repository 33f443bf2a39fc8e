"""What the routing table is told of members of offices."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import Registration, StatusUpdate, Unregistration
from bridge.connectors.offices.calls.member_agents import Addresses, Seat
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.rooms.record_rows import JOINED, of_member
from storage.database import Database
from storage.offices.records import insert_records
from tests.support.agents import routing_table

TIMEOUT = 20.0
BOSS, HANDS = Member("1", AGENT, "boss", "a"), Member("2", COMPUTER, "hands", "a")


@dataclass
class Office:
    routes: RoutingTable
    seats: list[Seat] = field(default_factory=list)
    happened: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    addresses: Addresses | None = None

    def move(self, *seats: Seat) -> None:
        assert self.addresses is not None
        self.seats = list(seats)
        self.addresses.moved()

    async def parting(self, address: AgentAddress) -> None:
        self.happened.append(("parting", str(address)))

    async def came(self, addresses: Sequence[AgentAddress]) -> None:
        self.happened += [("came", str(address)) for address in addresses]

    async def known(self, agent_id: str, condition: Callable[[Agent], object]) -> Agent:
        async with asyncio.timeout(TIMEOUT):
            while (agent := self.routes.agent(AgentAddress(agent_id, "here"))) is None or not condition(
                agent
            ):
                await asyncio.sleep(0.01)
        return agent


@asynccontextmanager
async def office(database: Database, grace: float = 60.0, now: int = 1_000) -> AsyncIterator[Office]:
    async with routing_table(database, "here", now_ms=lambda: now) as routes:
        made = Office(routes)
        made.addresses = Addresses(
            routes,
            database,
            lambda: made.seats,
            parting=made.parting,
            came=made.came,
            now_ms=lambda: now,
            report=lambda sentence, error: made.problems.append(sentence),
            grace=grace,
        )
        await made.addresses.start()
        yield made
        made.seats = []
        await made.addresses.close()


def here(agent: Agent) -> bool:
    return agent.is_online


def gone(agent: Agent) -> bool:
    return not agent.is_online


async def test_who_comes_and_goes_is_told(database: Database) -> None:
    """What was meant for somebody is brought when it can be; what has begun ends before it is told gone."""
    async with office(database) as made:
        made.move(Seat(BOSS, reads_tasks=True), Seat(HANDS))
        boss = await made.known("a/boss", here)
        assert (boss.runtime, boss.capabilities, boss.connector) == (
            "a2c-smcp",
            ("task_execution",),
            "offices",
        )
        await made.known("a/hands", here)
        made.move(Seat(HANDS, tools=("add",)))
        await made.known("a/boss", gone)
        await made.known("a/hands", lambda agent: agent.capabilities == ("add",))
        assert sorted(made.happened[:2]) == [("came", "a/boss@here"), ("came", "a/hands@here")]
        assert made.happened[2:] == [("parting", "a/boss@here")]
        assert made.addresses is not None
        assert made.addresses.seat(AgentAddress("a/boss", "here")) is None


async def test_a_member_that_is_another_connection_is_met_anew(database: Database) -> None:
    """Though it is the same agent."""
    async with office(database) as made:
        made.move(Seat(HANDS))
        await made.known("a/hands", here)
        made.move(Seat(Member("3", COMPUTER, "hands", "a")))
        async with asyncio.timeout(TIMEOUT):
            while len(made.happened) < 2:
                await asyncio.sleep(0.01)
        assert made.happened == [("came", "a/hands@here")] * 2


async def test_everybody_is_gone_in_the_end(database: Database) -> None:
    async with office(database) as made:
        made.move(Seat(BOSS))
        await made.known("a/boss", here)
    async with routing_table(database, "here", now_ms=lambda: 1_000) as routes:
        agent = routes.agent(AgentAddress("a/boss", "here"))
        assert agent is not None
        assert not agent.is_online


async def test_another_agent_keeps_its_address(database: Database) -> None:
    """The operator is told, once."""
    async with office(database) as made:
        other = Registration(AgentAddress("a/boss", "here"), "attached", "x", (), 1_000)
        await made.routes.update([other])
        made.move(Seat(BOSS))
        made.move(Seat(BOSS), Seat(HANDS))
        await made.known("a/hands", here)
        made.move()
        await made.known("a/hands", gone)
        agent = await made.known("a/boss", here)
        assert agent.connector == "attached"
        assert made.problems == ["a/boss@here is another agent already, and stays that one."]


async def test_who_is_told_gone_by_others_is_told_here_again(database: Database) -> None:
    """Another process may have been slow to tell it."""
    async with office(database) as made:
        made.move(Seat(BOSS))
        await made.known("a/boss", here)
        await made.routes.update([Unregistration(AgentAddress("a/boss", "here"), "left", 1_000)])
        await made.known("a/boss", here)


async def test_whom_a_kill_has_left_is_given_time(database: Database) -> None:
    """And does nothing meanwhile; members of another process are its own."""
    async with routing_table(database, "here", now_ms=lambda: 500) as routes:
        addresses = [AgentAddress(f"a/{name}", "here") for name in ("boss", "hands", "theirs")]
        await routes.update([Registration(address, "offices", "a2c-smcp", (), 500) for address in addresses])
        await routes.update([StatusUpdate(address, AgentStatus.BUSY, "t", 500) for address in addresses])
    async with database.transaction() as connection:
        theirs = Member("9", COMPUTER, "theirs", "a")
        await insert_records(connection, [of_member(JOINED, theirs, None, 500, "another")])
    async with office(database, grace=0.3) as made:
        for name in ("boss", "hands"):
            assert (await made.known(f"a/{name}", here)).status is AgentStatus.IDLE
        made.move(Seat(BOSS))
        await made.known("a/hands", gone)
        assert (await made.known("a/boss", here)).is_online
        assert (await made.known("a/theirs", here)).status is AgentStatus.BUSY
