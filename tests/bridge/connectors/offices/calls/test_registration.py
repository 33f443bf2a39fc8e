"""Registration of members in the routing table."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import Registration, StatusUpdate, Unregistration
from bridge.connectors.offices.calls.member_agents import LocalMember, MemberAgents
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.rooms.record_rows import JOINED, member_record
from storage.database import Database
from storage.offices.records import insert_records
from tests.support.agents import routing_table

TIMEOUT = 20.0
BOSS, HANDS = Member("1", AGENT, "boss", "a"), Member("2", COMPUTER, "hands", "a")


@dataclass
class Setup:
    routes: RoutingTable
    members: list[LocalMember] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    member_agents: MemberAgents | None = None

    def set_members(self, *members: LocalMember) -> None:
        assert self.member_agents is not None
        self.members = list(members)
        self.member_agents.members_changed()

    async def before_unregister(self, address: AgentAddress) -> None:
        self.calls.append(("before_unregister", str(address)))

    async def on_available(self, addresses: Sequence[AgentAddress]) -> None:
        self.calls += [("on_available", str(address)) for address in addresses]

    async def known(self, agent_id: str, condition: Callable[[Agent], object]) -> Agent:
        async with asyncio.timeout(TIMEOUT):
            while (agent := self.routes.agent(AgentAddress(agent_id, "here"))) is None or not condition(agent):
                await asyncio.sleep(0.01)
        return agent


@asynccontextmanager
async def office(database: Database, grace: float = 60.0, now: int = 1_000) -> AsyncIterator[Setup]:
    async with routing_table(database, "here", now_ms=lambda: now) as routes:
        made = Setup(routes)
        made.member_agents = MemberAgents(
            routes,
            database,
            lambda: made.members,
            before_unregister=made.before_unregister,
            on_available=made.on_available,
            now_ms=lambda: now,
            report=lambda sentence, error: made.problems.append(sentence),
            grace=grace,
        )
        await made.member_agents.start()
        yield made
        made.members = []
        await made.member_agents.close()


def here(agent: Agent) -> bool:
    return agent.is_online


def gone(agent: Agent) -> bool:
    return not agent.is_online


async def test_members_are_registered_and_unregistered(database: Database) -> None:
    """A new agent can receive waiting tasks. Running tasks are ended before an agent is unregistered."""
    async with office(database) as made:
        made.set_members(LocalMember(BOSS, reads_tasks=True), LocalMember(HANDS))
        boss = await made.known("a/boss", here)
        assert (boss.runtime, boss.capabilities, boss.connector) == ("a2c-smcp", ("task_execution",), "offices")
        await made.known("a/hands", here)
        made.set_members(LocalMember(HANDS, tools=("add",)))
        await made.known("a/boss", gone)
        await made.known("a/hands", lambda agent: agent.capabilities == ("add",))
        assert sorted(made.calls[:2]) == [("on_available", "a/boss@here"), ("on_available", "a/hands@here")]
        assert made.calls[2:] == [("before_unregister", "a/boss@here")]
        assert made.member_agents is not None
        assert made.member_agents.member_at(AgentAddress("a/boss", "here")) is None


async def test_a_new_connection_of_a_member_is_available_again(database: Database) -> None:
    """Although it is the same agent."""
    async with office(database) as made:
        made.set_members(LocalMember(HANDS))
        await made.known("a/hands", here)
        made.set_members(LocalMember(Member("3", COMPUTER, "hands", "a")))
        async with asyncio.timeout(TIMEOUT):
            while len(made.calls) < 2:
                await asyncio.sleep(0.01)
        assert made.calls == [("on_available", "a/hands@here")] * 2


async def test_all_members_are_unregistered_on_close(database: Database) -> None:
    async with office(database) as made:
        made.set_members(LocalMember(BOSS))
        await made.known("a/boss", here)
    async with routing_table(database, "here", now_ms=lambda: 1_000) as routes:
        agent = routes.agent(AgentAddress("a/boss", "here"))
        assert agent is not None
        assert not agent.is_online


async def test_another_agent_keeps_its_address(database: Database) -> None:
    """The conflict is reported once."""
    async with office(database) as made:
        other = Registration(AgentAddress("a/boss", "here"), "attached", "x", (), 1_000)
        await made.routes.update([other])
        made.set_members(LocalMember(BOSS))
        made.set_members(LocalMember(BOSS), LocalMember(HANDS))
        await made.known("a/hands", here)
        made.set_members()
        await made.known("a/hands", gone)
        agent = await made.known("a/boss", here)
        assert agent.connector == "attached"
        [problem] = made.problems
        assert "a/boss@here" in problem


async def test_a_member_unregistered_by_another_process_is_registered_again(database: Database) -> None:
    """The other process may have been slow to record its leave."""
    async with office(database) as made:
        made.set_members(LocalMember(BOSS))
        await made.known("a/boss", here)
        await made.routes.update([Unregistration(AgentAddress("a/boss", "here"), "left", 1_000)])
        await made.known("a/boss", here)


async def test_members_of_a_killed_process_can_reconnect(database: Database) -> None:
    """Until then they are idle. Members of another running process are left alone."""
    async with routing_table(database, "here", now_ms=lambda: 500) as routes:
        addresses = [AgentAddress(f"a/{name}", "here") for name in ("boss", "hands", "theirs")]
        await routes.update([Registration(address, "offices", "a2c-smcp", (), 500) for address in addresses])
        await routes.update([StatusUpdate(address, AgentStatus.BUSY, "t", 500) for address in addresses])
    async with database.transaction() as connection:
        theirs = Member("9", COMPUTER, "theirs", "a")
        await insert_records(connection, [member_record(JOINED, theirs, None, 500, "another")])
    async with office(database, grace=0.3) as made:
        for name in ("boss", "hands"):
            assert (await made.known(f"a/{name}", here)).status is AgentStatus.IDLE
        made.set_members(LocalMember(BOSS))
        await made.known("a/hands", gone)
        assert (await made.known("a/boss", here)).is_online
        assert (await made.known("a/theirs", here)).status is AgentStatus.BUSY
