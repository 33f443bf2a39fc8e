"""Agents and nodes: writing, following changes, expiry and pruning."""

import pytest

from storage.agents import agents
from storage.agents.agents import AgentKey, AgentRow, NodeRow
from storage.database import Connection, Database

WORKER = AgentRow("w", "a", "cis", "claude", ["coding", 't"e,s{t}'], "idle", None, 1, 10, None, None, None)
OWN = "own"


def key(row: AgentRow) -> AgentKey:
    return row.node_id, row.agent_id


async def stored(database: Database) -> dict[AgentKey, AgentRow]:
    async with database.transaction() as connection:
        return {key(row): row for row in await agents.find_agents(connection, None, None, 1000)}


async def node(connection: Connection, node_id: str) -> NodeRow:
    [row] = await agents.lock_nodes(connection, [node_id])
    return row


async def test_agents_are_written_and_found(database: Database) -> None:
    """Several agents are written at once; capabilities may be any text."""
    other = WORKER._replace(agent_id="v", capabilities=[], current_task="t", status="busy", last_seen=5)
    elsewhere = WORKER._replace(node_id="b", gone_at=7, gone_reason="shutdown")
    async with database.transaction() as connection:
        await agents.write_agents(connection, [])
        await agents.write_agents(connection, [WORKER, other, elsewhere])
        assert await agents.find_agents(connection, None, None, 9) == [other, WORKER, elsewhere]
        assert await agents.find_agents(connection, "a", None, 9) == [other, WORKER]
        assert await agents.find_agents(connection, None, "w", 9) == [WORKER, elsewhere]
        assert await agents.find_agents(connection, "a", "w", 9) == [WORKER]
        assert await agents.find_agents(connection, None, None, 1) == [other]
        assert await agents.lock_agents(connection, [("b", "w"), ("a", "w"), ("c", "x")]) == [WORKER, elsewhere]


async def test_an_older_update_changes_nothing(database: Database) -> None:
    """Two processes may both have decided to insert the same agent."""
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER])
        await agents.write_agents(connection, [WORKER._replace(sent_at=9, runtime="kimi")])
    assert await stored(database) == {("a", "w"): WORKER}
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER._replace(sent_at=10, runtime="kimi")])
        await agents.touch_agents(connection, [])
        await agents.touch_agents(connection, [("a", "w", 9, 9), ("x", "y", 1, 1)])
        await agents.touch_agents(connection, [("a", "w", 11, 12)])
    assert await stored(database) == {("a", "w"): WORKER._replace(runtime="kimi", sent_at=11, last_seen=12)}


async def test_followers_miss_no_change(database: Database) -> None:
    """A follower sees the change of a transaction that began before and ended after the follower's previous
    query."""
    read = {"isolation": "repeatable_read", "readonly": True}
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER])
    async with database.transaction(**read) as connection:  # type: ignore[arg-type]
        first = await agents.list_changes(connection, None)
    assert first.agents == [WORKER]
    early, late = WORKER._replace(agent_id="early"), WORKER._replace(agent_id="late")
    async with database.transaction() as slow:
        await agents.write_agents(slow, [early])
        async with database.transaction() as quick:
            await agents.write_agents(quick, [late])
            await agents.insert_nodes(quick, ["a"], 3)
        async with database.transaction(**read) as connection:  # type: ignore[arg-type]
            second = await agents.list_changes(connection, first.horizon)
    assert [row.agent_id for row in second.agents] == ["late"]
    assert [row.node_id for row in second.nodes] == ["a"]
    async with database.transaction(**read) as connection:  # type: ignore[arg-type]
        third = await agents.list_changes(connection, second.horizon)
    assert early in third.agents
    async with database.transaction(**read) as connection:  # type: ignore[arg-type]
        assert (await agents.list_changes(connection, third.horizon)).agents == []


async def test_an_update_of_times_is_not_followed(database: Database) -> None:
    """Heartbeats change nothing that followers need."""
    read = {"isolation": "repeatable_read", "readonly": True}
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER])
        await agents.insert_nodes(connection, ["a"], 3)
        await agents.start_heartbeat_monitoring(connection, ["a"], 4)
    async with database.transaction(**read) as connection:  # type: ignore[arg-type]
        before = await agents.list_changes(connection, None)
    async with database.transaction() as connection:
        await agents.touch_agents(connection, [("a", "w", 11, 12)])
        await agents.write_heartbeat(connection, "a", 50, 40)
        await agents.write_node(connection, "a", None, 99, trusted=False)
        await agents.start_heartbeat_monitoring(connection, ["a"], 99)
    async with database.transaction(**read) as connection:  # type: ignore[arg-type]
        after = await agents.list_changes(connection, before.horizon)
    assert (after.agents, after.nodes) == ([], [])


async def test_transaction_ids_of_another_server_are_reset(database: Database) -> None:
    """After a restore every row could have a transaction id in the future, and would be returned by every
    query."""
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER])
        await agents.insert_nodes(connection, ["a"], 3)
        await connection.execute("UPDATE agents SET changed_in = 1::bigint << 60")
        await connection.execute("UPDATE agent_nodes SET changed_in = 1::bigint << 60")
        await agents.reset_change_numbers(connection)
    async with database.transaction(isolation="repeatable_read") as connection:
        horizon = (await agents.list_changes(connection, None)).horizon
        changes = await agents.list_changes(connection, horizon)
    assert (changes.agents, changes.nodes) == ([], [])


async def test_a_node_has_its_settings_and_its_heartbeats(database: Database) -> None:
    """A heartbeat ends the silence of a node; an older one changes no time."""
    async with database.transaction() as connection:
        await agents.insert_nodes(connection, ["a", "b"], 3)
        await agents.insert_nodes(connection, ["a"], 4)
        await agents.write_node(connection, "a", "http://a", 5, trusted=True)
        await agents.write_node(connection, "c", None, 5, trusted=True)
        assert await agents.list_nodes(connection) == [
            NodeRow("b", None, False, 3, None, None, None),
            NodeRow("a", "http://a", True, 3, None, None, None),
            NodeRow("c", None, True, 5, None, None, None),
        ]
        await agents.start_heartbeat_monitoring(connection, ["a"], 10)
        await agents.start_heartbeat_monitoring(connection, ["a"], 11)
        assert (await node(connection, "a")).last_heartbeat == 10
        await agents.expire_silent(connection, 50, 60, OWN)
        assert (await node(connection, "a")).silent_since == 60
        assert (await node(connection, "b")).silent_since is None, "it was never listened for"
        await agents.start_heartbeat_monitoring(connection, ["a"], 61)
        assert await node(connection, "a") == NodeRow("a", "http://a", True, 3, 61, None, None)
        await agents.expire_silent(connection, 62, 62, OWN)
        await agents.write_heartbeat(connection, "a", 70, 65)
        await agents.write_heartbeat(connection, "a", 69, 66)
        assert await node(connection, "a") == NodeRow("a", "http://a", True, 3, 70, 66, None)


async def test_agents_of_an_untrusted_node_are_offline(database: Database) -> None:
    """Immediately and without announcement. A node that is trusted again stays silent until its next
    heartbeat, unless it has never sent one."""
    other, left = WORKER._replace(node_id="b"), WORKER._replace(agent_id="l", gone_at=3, gone_reason="left")
    async with database.transaction() as connection:
        for node_id in ("a", "b"):
            await agents.write_node(connection, node_id, None, 1, trusted=True)
        await agents.write_heartbeat(connection, "a", 5, 5)
        await agents.write_agents(connection, [WORKER, other, left])
        for _ in range(2):
            for node_id in ("a", "b"):
                await agents.write_node(connection, node_id, None, 7, trusted=False)
                await agents.distrust_node(connection, node_id, 7)
        assert await agents.list_unannounced(connection, 9) == []
        assert (await node(connection, "a")).silent_since == 7
    gone = {"gone_at": 7, "gone_reason": "untrusted"}
    assert await stored(database) == {
        ("a", "w"): WORKER._replace(**gone),
        ("a", "l"): left,
        ("b", "w"): other._replace(**gone),
    }
    async with database.transaction() as connection:
        for node_id in ("a", "b"):
            await agents.write_node(connection, node_id, None, 8, trusted=True)
        assert (await node(connection, "a")).silent_since == 7
        assert (await node(connection, "b")).silent_since is None
        await agents.write_heartbeat(connection, "a", 9, 9)
        assert (await node(connection, "a")).silent_since is None


async def test_silent_agents_expire_once(database: Database) -> None:
    """With their node or by themselves; a second call returns none."""
    alone = WORKER._replace(agent_id="alone", last_seen=10)
    lively = WORKER._replace(agent_id="lively", last_seen=30)
    at_home = WORKER._replace(node_id=OWN)
    gone = WORKER._replace(agent_id="gone", gone_at=2, gone_reason="shutdown")
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER, alone, lively, at_home, gone])
        await agents.insert_nodes(connection, ["a", OWN], 3)
        await agents.start_heartbeat_monitoring(connection, ["a", OWN], 10)
        assert await agents.fetch_oldest_heartbeat(connection, OWN) == 10
        assert await agents.expire_silent(connection, 10, 99, OWN) == []
        assert set(await agents.expire_silent(connection, 11, 99, OWN)) == {("a", "w"), ("a", "alone")}
        assert await agents.expire_silent(connection, 11, 99, OWN) == []
        assert await agents.fetch_oldest_heartbeat(connection, OWN) == 30
        rows = {row.agent_id: row for row in await agents.find_agents(connection, "a", None, 9)}
        assert (rows["w"].gone_at, rows["w"].gone_reason) == (99, "timeout")
        assert rows["gone"] == gone
        assert rows["lively"] == lively


async def test_an_expired_agent_is_listed_until_it_is_announced(database: Database) -> None:
    """An agent that is back meanwhile is not announced; one that has expired again meanwhile is."""
    alone = WORKER._replace(agent_id="v", last_seen=10)
    async with database.transaction() as connection:
        await agents.write_agents(connection, [WORKER._replace(last_seen=10), alone])
        await agents.expire_silent(connection, 11, 99, OWN)
        [lost, _] = untold = await agents.list_unannounced(connection, 9)
        assert [row.agent_id for row in untold] == ["v", "w"]
        assert await agents.list_unannounced(connection, 1) == [lost]
        await agents.write_agents(connection, [WORKER._replace(sent_at=20)])
        assert await agents.list_unannounced(connection, 9) == [lost]
        await agents.write_agents(connection, [alone._replace(sent_at=20, last_seen=100)])
        await agents.expire_silent(connection, 101, 200, OWN)
        await agents.mark_announced(connection, [lost])
        [again] = await agents.list_unannounced(connection, 9)
        await agents.mark_announced(connection, [])
        await agents.mark_announced(connection, [again])
        assert await agents.list_unannounced(connection, 9) == []


async def test_one_transaction_announces_at_a_time(database: Database) -> None:
    """Until it ends, by commit or rollback."""
    async with database.transaction() as first, database.transaction() as second:
        assert await agents.try_lock_announcements(first)
        assert not await agents.try_lock_announcements(second)
    async with database.transaction() as third:
        assert await agents.try_lock_announcements(third)


async def test_offline_agents_are_pruned_in_batches(database: Database) -> None:
    """But not before they have been announced."""
    gone = [WORKER._replace(agent_id=f"w{number}", gone_at=number, gone_reason="shutdown") for number in range(4)]
    async with database.transaction() as connection:
        await agents.write_agents(connection, [*gone, WORKER._replace(last_seen=1)])
        await agents.expire_silent(connection, 2, 2, OWN)
        assert await agents.prune_agents(connection, 3, 2) == 2
        assert await agents.prune_agents(connection, 3, 2) == 1
        assert await agents.prune_agents(connection, 3, 2) == 0
    assert set(await stored(database)) == {("a", "w"), ("a", "w3")}


@pytest.mark.parametrize("since", [5, None])
async def test_the_monitoring_period_is_stored(database: Database, since: int | None) -> None:
    """It survives a restart of the process."""
    async with database.transaction() as connection:
        assert await agents.fetch_monitoring_period(connection) is None
        await agents.write_monitoring_period(connection, 1, 2)
        if since is not None:
            await agents.write_monitoring_period(connection, since, 9)
    async with database.transaction() as connection:
        assert await agents.fetch_monitoring_period(connection) == ((1, 2) if since is None else (5, 9))
