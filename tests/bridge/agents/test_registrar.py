"""Updates of agents on the database."""

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.registrar import AgentRegistrar, AppliedUpdates, RegistrarLimits
from bridge.agents.routing import AgentRoutingTable
from bridge.agents.updates import (
    AgentHeartbeat,
    HeartbeatRecorded,
    LimitReached,
    NodeHeartbeat,
    Registration,
    StaleUpdate,
    StatusUpdate,
    UnknownAgent,
    Unregistration,
    Update,
    Updated,
)
from storage.agents import agents
from storage.agents.agents import NodeRow
from storage.database import Database

NOW = 10**12
IDLE, BUSY = AgentStatus.IDLE, AgentStatus.BUSY


def at(agent_id: str, node_id: str = "a") -> AgentAddress:
    return AgentAddress(agent_id, node_id)


def registered(address: AgentAddress, sent_at: int = NOW, *, sends_heartbeats: bool = False) -> Registration:
    return Registration(address, "cis", "claude", ("coding",), sent_at, sends_heartbeats)


class Registrar:
    """A registrar, and a table that follows it like that of a process."""

    def __init__(self, database: Database, limits: RegistrarLimits | None = None) -> None:
        self.database = database
        self.table = AgentRoutingTable()
        self.intake = AgentRegistrar(self.table, limits or RegistrarLimits())

    async def take(self, *news: Update, now_ms: int = NOW) -> AppliedUpdates:
        async with self.database.transaction() as connection:
            applied = await self.intake.apply(connection, news, now_ms)
        await self.follow()
        return applied

    async def follow(self) -> None:
        async with self.database.transaction(isolation="repeatable_read", readonly=True) as connection:
            changes = await agents.list_changes(connection, None)
        for node in changes.nodes:
            self.table.put_node(node)  # type: ignore[arg-type]
        for row in changes.agents:
            self.table.put(self.intake.agent_of(row))

    def agent(self, agent_id: str, node_id: str = "a") -> Agent:
        agent = self.table.agent(at(agent_id, node_id))
        assert agent is not None
        return agent


@pytest.fixture
def intake(database: Database) -> Registrar:
    return Registrar(database)


async def test_updates_are_applied_in_order(intake: Registrar) -> None:
    """The outcomes have the order of the updates, all in one transaction."""
    applied = await intake.take(
        registered(at("w")),
        StatusUpdate(at("v"), BUSY, "t", NOW),
        StatusUpdate(at("w"), BUSY, "t", NOW + 1),
        StatusUpdate(at("w"), IDLE, None, NOW - 1),
    )
    kinds = [type(verdict) for verdict in applied.outcomes]
    assert kinds == [Updated, UnknownAgent, Updated, StaleUpdate]
    assert (intake.agent("w").status, intake.agent("w").current_task) == (BUSY, "t")
    assert applied.has_changed


async def test_a_repeated_update_changes_nothing(intake: Registrar) -> None:
    """After a kill between commit and response it may be sent again."""
    news: list[Update] = [registered(at("w")), StatusUpdate(at("w"), BUSY, "t", NOW + 1)]
    await intake.take(*news)
    before = intake.agent("w")
    applied = await intake.take(*news)
    assert not applied.has_changed
    assert intake.agent("w") == before
    gone: list[Update] = [Unregistration(at("w"), "shutdown", NOW + 2)]
    await intake.take(*gone)
    assert not (await intake.take(*gone, registered(at("w")))).has_changed


async def test_decisions_use_the_database(database: Database) -> None:
    """A process with outdated memory does not overwrite a newer update."""
    here, there = Registrar(database), Registrar(database)
    await here.take(registered(at("w")))
    await there.follow()
    async with database.transaction() as connection:
        await here.intake.apply(connection, [Unregistration(at("w"), "shutdown", NOW + 5)], NOW)
    assert there.agent("w").is_online
    applied = await there.take(StatusUpdate(at("w"), BUSY, "t", NOW + 4))
    assert applied.outcomes == [StaleUpdate("a newer update of the agent is known")]
    assert not there.agent("w").is_online


async def test_the_first_registration_of_a_node_starts_its_timeout(intake: Registrar) -> None:
    """Otherwise its agents would never be lost if it sent no heartbeat at all."""
    await intake.take(registered(at("w")), registered(at("v", "b"), sends_heartbeats=True))
    assert {node.node_id: node.last_heartbeat for node in intake.table.nodes()} == {"a": NOW, "b": None}
    assert intake.agent("v", "b").last_seen == NOW


async def test_a_registration_restarts_the_timeout_of_a_silent_node(intake: Registrar) -> None:
    """Otherwise its agents would stay online for ever, because it is lost only once."""
    await intake.take(registered(at("w")))
    async with intake.database.transaction() as connection:
        await agents.expire_silent(connection, NOW + 1, NOW + 2, "own")
    await intake.follow()
    assert not intake.agent("w").is_online
    await intake.take(registered(at("w"), NOW + 3), now_ms=NOW + 3)
    assert intake.agent("w").is_online
    [node] = intake.table.nodes()
    assert (node.silent_since, node.last_heartbeat) == (None, NOW + 3)


async def test_a_heartbeat_without_changes_writes_one_row(intake: Registrar) -> None:
    """For any number of agents, and without a notification."""
    await intake.take(*(registered(at(f"w{number}")) for number in range(50)))
    beat = NodeHeartbeat("a", NOW + 9, {f"w{number}": IDLE for number in range(50)})
    applied = await intake.take(beat, now_ms=NOW + 10)
    assert applied == AppliedUpdates([HeartbeatRecorded()], [beat], has_changed=False)
    async with intake.database.transaction() as connection:
        assert await agents.lock_nodes(connection, ["a"]) == [NodeRow("a", None, False, NOW, NOW + 10, NOW + 9, None)]
    repeated = await intake.take(beat, now_ms=NOW + 11)
    assert (repeated.heartbeats, [type(verdict) for verdict in repeated.outcomes]) == ([], [StaleUpdate])


async def test_a_heartbeat_brings_agents_back_and_omits_others(intake: Registrar) -> None:
    """Differences are applied like other updates."""
    await intake.take(registered(at("w")), registered(at("v")), registered(at("u")))
    await intake.take(NodeHeartbeat("a", NOW + 1, {"w": IDLE, "v": IDLE, "u": IDLE}), now_ms=NOW + 2)
    async with intake.database.transaction() as connection:
        await agents.expire_silent(connection, NOW + 3, NOW + 4, "own")
    await intake.follow()
    applied = await intake.take(NodeHeartbeat("a", NOW + 5, {"w": BUSY, "x": IDLE}), now_ms=NOW + 6)
    assert applied.outcomes == [HeartbeatRecorded(("x",))]
    assert applied.has_changed
    assert (intake.agent("w").is_online, intake.agent("w").status) == (True, BUSY)
    assert not intake.agent("v").is_online
    await intake.take(NodeHeartbeat("a", NOW + 7, {}), now_ms=NOW + 8)
    assert intake.agent("w").last_seen == NOW + 6, "it was last heard with the heartbeat before"


async def test_an_agents_own_heartbeat_changes_timestamps_only(intake: Registrar) -> None:
    """It is sent every thirty seconds."""
    await intake.take(registered(at("w"), sends_heartbeats=True))
    applied = await intake.take(AgentHeartbeat(at("w"), IDLE, NOW + 5), now_ms=NOW + 6)
    assert not applied.has_changed
    async with intake.database.transaction() as connection:
        [row] = await agents.find_agents(connection, "a", "w", 1)
    assert (row.sent_at, row.last_seen) == (NOW + 5, NOW + 6)


async def test_agents_of_a_node_are_bounded(database: Database) -> None:
    """Those that are offline count; known agents can still be updated."""
    intake = Registrar(database, RegistrarLimits(agents_per_node=2))
    await intake.take(registered(at("w")), Unregistration(at("w"), "x", NOW + 1))
    applied = await intake.take(registered(at("v")), registered(at("u")), registered(at("v"), NOW + 1))
    assert [type(verdict) for verdict in applied.outcomes] == [Updated, LimitReached, Updated]
    assert set(intake.table.agents_of("a")) == {"w", "v"}


async def test_nodes_are_bounded(database: Database) -> None:
    """Known nodes can still be updated."""
    intake = Registrar(database, RegistrarLimits(nodes=1))
    await intake.take(registered(at("w")))
    applied = await intake.take(
        registered(at("w", "b")), NodeHeartbeat("c", NOW, {}), registered(at("v")), NodeHeartbeat("a", NOW)
    )
    assert [type(verdict) for verdict in applied.outcomes] == [LimitReached, LimitReached, Updated, HeartbeatRecorded]
    assert [node.node_id for node in intake.table.nodes()] == ["a"]


async def test_common_values_are_interned(intake: Registrar) -> None:
    """There may be a hundred thousand agents."""
    await intake.take(registered(at("w")), registered(at("v")))
    assert intake.agent("w").capabilities is intake.agent("v").capabilities
    assert intake.agent("w").node_id is intake.agent("v").node_id
