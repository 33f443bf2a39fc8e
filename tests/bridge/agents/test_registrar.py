"""What is said of agents, on the database."""

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


class Intake:
    """One, and a table that follows it as that of a process does."""

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
def intake(database: Database) -> Intake:
    return Intake(database)


async def test_news_is_worked_on_in_its_order(intake: Intake) -> None:
    """Each verdict at the place of its news, all in one transaction."""
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


async def test_what_is_said_a_second_time_changes_nothing(intake: Intake) -> None:
    """Whatever is killed between commit and answer, it may be said again."""
    news: list[Update] = [registered(at("w")), StatusUpdate(at("w"), BUSY, "t", NOW + 1)]
    await intake.take(*news)
    before = intake.agent("w")
    applied = await intake.take(*news)
    assert not applied.has_changed
    assert intake.agent("w") == before
    gone: list[Update] = [Unregistration(at("w"), "shutdown", NOW + 2)]
    await intake.take(*gone)
    assert not (await intake.take(*gone, registered(at("w")))).has_changed


async def test_a_decision_is_made_on_what_the_database_has(database: Database) -> None:
    """A process that is a moment behind does not undo what another one has written."""
    here, there = Intake(database), Intake(database)
    await here.take(registered(at("w")))
    await there.follow()
    async with database.transaction() as connection:
        await here.intake.apply(connection, [Unregistration(at("w"), "shutdown", NOW + 5)], NOW)
    assert there.agent("w").is_online
    applied = await there.take(StatusUpdate(at("w"), BUSY, "t", NOW + 4))
    assert applied.outcomes == [StaleUpdate("a newer update of the agent is known")]
    assert not there.agent("w").is_online


async def test_the_first_word_of_a_node_begins_the_listening(intake: Intake) -> None:
    """Agents that live with their node would never be lost if it never sent a heartbeat at all."""
    await intake.take(registered(at("w")), registered(at("v", "b"), sends_heartbeats=True))
    assert {node.node_id: node.last_heartbeat for node in intake.table.nodes()} == {"a": NOW, "b": None}
    assert intake.agent("v", "b").last_seen == NOW


async def test_a_node_that_was_silent_is_heard_when_it_registers_agents(intake: Intake) -> None:
    """Else they would be there for ever, for it is lost only once."""
    await intake.take(registered(at("w")))
    async with intake.database.transaction() as connection:
        await agents.expire_silent(connection, NOW + 1, NOW + 2, "own")
    await intake.follow()
    assert not intake.agent("w").is_online
    await intake.take(registered(at("w"), NOW + 3), now_ms=NOW + 3)
    assert intake.agent("w").is_online
    [node] = intake.table.nodes()
    assert (node.silent_since, node.last_heartbeat) == (None, NOW + 3)


async def test_a_heartbeat_without_news_writes_one_row(intake: Intake) -> None:
    """However many agents it has; and nobody who follows is told."""
    await intake.take(*(registered(at(f"w{number}")) for number in range(50)))
    beat = NodeHeartbeat("a", NOW + 9, {f"w{number}": IDLE for number in range(50)})
    applied = await intake.take(beat, now_ms=NOW + 10)
    assert applied == AppliedUpdates([HeartbeatRecorded()], [beat], has_changed=False)
    async with intake.database.transaction() as connection:
        assert await agents.lock_nodes(connection, ["a"]) == [
            NodeRow("a", None, False, NOW, NOW + 10, NOW + 9, None)
        ]
    repeated = await intake.take(beat, now_ms=NOW + 11)
    assert (repeated.heartbeats, [type(verdict) for verdict in repeated.outcomes]) == ([], [StaleUpdate])


async def test_a_heartbeat_brings_back_and_leaves_out(intake: Intake) -> None:
    """What it says of agents is news like any other."""
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


async def test_a_heartbeat_of_one_agent_is_only_noted(intake: Intake) -> None:
    """Agents that speak for themselves do it every thirty seconds."""
    await intake.take(registered(at("w"), sends_heartbeats=True))
    applied = await intake.take(AgentHeartbeat(at("w"), IDLE, NOW + 5), now_ms=NOW + 6)
    assert not applied.has_changed
    async with intake.database.transaction() as connection:
        [row] = await agents.find_agents(connection, "a", "w", 1)
    assert (row.sent_at, row.last_seen) == (NOW + 5, NOW + 6)


async def test_agents_of_a_node_are_bounded(database: Database) -> None:
    """And those that are gone count; the ones it has go on being heard."""
    intake = Intake(database, RegistrarLimits(agents_per_node=2))
    await intake.take(registered(at("w")), Unregistration(at("w"), "x", NOW + 1))
    applied = await intake.take(registered(at("v")), registered(at("u")), registered(at("v"), NOW + 1))
    assert [type(verdict) for verdict in applied.outcomes] == [Updated, LimitReached, Updated]
    assert set(intake.table.agents_of("a")) == {"w", "v"}


async def test_nodes_are_bounded(database: Database) -> None:
    """Those that are known stay."""
    intake = Intake(database, RegistrarLimits(nodes=1))
    await intake.take(registered(at("w")))
    applied = await intake.take(
        registered(at("w", "b")), NodeHeartbeat("c", NOW, {}), registered(at("v")), NodeHeartbeat("a", NOW)
    )
    assert [type(verdict) for verdict in applied.outcomes] == [
        LimitReached,
        LimitReached,
        Updated,
        HeartbeatRecorded,
    ]
    assert [node.node_id for node in intake.table.nodes()] == ["a"]


async def test_what_agents_have_in_common_is_kept_once(intake: Intake) -> None:
    """There are a hundred thousand of them."""
    await intake.take(registered(at("w")), registered(at("v")))
    assert intake.agent("w").capabilities is intake.agent("v").capabilities
    assert intake.agent("w").node_id is intake.agent("v").node_id
