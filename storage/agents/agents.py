"""Agents, their nodes, and the monitoring of their heartbeats.

All processes of a node write these tables and follow the changes in them. A row has the id of the transaction
that changed it. A follower queries all rows written by transactions that had not ended at its previous query,
so it misses none, in whatever order the transactions end.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from storage.database import Connection
from storage.statements import load

SQL = load("storage.agents", "agents.sql")


class AgentRow(NamedTuple):
    agent_id: str
    node_id: str
    connector: str
    runtime: str
    capabilities: Sequence[str]
    status: str
    current_task: str | None
    registered_at: int
    sent_at: int
    last_seen: int | None
    gone_at: int | None
    gone_reason: str | None


class NodeRow(NamedTuple):
    node_id: str
    url: str | None
    trusted: bool
    first_seen_at: int
    last_heartbeat: int | None
    heartbeat_sent_at: int | None
    silent_since: int | None


AgentKey = tuple[str, str]
"""(node id, agent id)."""


# ---- agents ------------------------------------------------------------------------------------------


async def find_agents(connection: Connection, node_id: str | None, agent_id: str | None, limit: int) -> list[AgentRow]:
    """A parameter that is None matches all."""
    return [AgentRow(*row) for row in await connection.fetch(SQL.find_agents, node_id, agent_id, limit)]


async def lock_agents(connection: Connection, keys: Iterable[AgentKey]) -> list[AgentRow]:
    """The agents that exist, locked until the transaction ends."""
    return [AgentRow(*row) for row in await connection.fetch(SQL.lock_agents, *_columns(keys))]


async def write_agents(connection: Connection, rows: Sequence[AgentRow]) -> None:
    """Insert or update agents. A row with an older `sent_at` than the stored one changes nothing."""
    if not rows:
        return
    agent_ids, node_ids, connectors, runtimes, capabilities, *others = zip(*rows, strict=True)
    # asyncpg would send an array of arrays as a two-dimensional array.
    as_json = [orjson.dumps(list(names)).decode() for names in capabilities]
    columns: list[Any] = [node_ids, agent_ids, connectors, runtimes, as_json]
    await connection.execute(SQL.write_agents, *columns, *others)


async def touch_agents(connection: Connection, updates: Sequence[tuple[str, str, int, int | None]]) -> None:
    """Write the times of (node id, agent id, sent_at, last_seen). Followers are not notified."""
    if updates:
        columns = (list(column) for column in zip(*updates, strict=True))
        await connection.execute(SQL.touch_agents, *columns)


async def prune_agents(connection: Connection, gone_before: int, limit: int) -> int:
    """Delete up to `limit` agents that went offline before that time, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_agents, gone_before, limit)
    return deleted


# ---- nodes -------------------------------------------------------------------------------------------


async def list_nodes(connection: Connection) -> list[NodeRow]:
    return [NodeRow(*row) for row in await connection.fetch(SQL.list_nodes)]


async def lock_nodes(connection: Connection, node_ids: Iterable[str]) -> list[NodeRow]:
    return [NodeRow(*row) for row in await connection.fetch(SQL.lock_nodes, list(node_ids))]


async def insert_nodes(connection: Connection, node_ids: Iterable[str], now_ms: int) -> None:
    """Insert nodes that are not known yet, as untrusted."""
    await connection.execute(SQL.insert_nodes, list(node_ids), now_ms)


async def write_node(connection: Connection, node_id: str, url: str | None, now_ms: int, *, trusted: bool) -> None:
    """Write the settings of a node from the configuration or an operator."""
    await connection.execute(SQL.write_node, node_id, url, trusted, now_ms)


async def distrust_node(connection: Connection, node_id: str, now_ms: int) -> None:
    """Mark an untrusted node as silent and its agents as offline: its messages are no longer accepted."""
    await connection.execute(SQL.mark_node_silent, node_id, now_ms)
    await connection.execute(SQL.distrust_agents, node_id, now_ms)


async def write_heartbeat(connection: Connection, node_id: str, now_ms: int, sent_at: int | None) -> None:
    """Record a heartbeat. `sent_at` is None for a message that only shows that the node is alive and says
    nothing about its agents."""
    await connection.execute(SQL.write_heartbeat, node_id, now_ms, sent_at)


async def start_heartbeat_monitoring(connection: Connection, node_ids: Iterable[str], now_ms: int) -> None:
    """Expect heartbeats of these nodes from now on, also of those that were silent."""
    await connection.execute(SQL.start_heartbeat_monitoring, list(node_ids), now_ms)


# ---- following ---------------------------------------------------------------------------------------


class Changes(NamedTuple):
    """`horizon` is the argument for the next query."""

    agents: list[AgentRow]
    nodes: list[NodeRow]
    horizon: int


async def list_changes(connection: Connection, horizon: int | None) -> Changes:
    """The rows changed since the horizon, or all rows without one. Some rows may have been returned before.
    Needs a transaction with the isolation `repeatable_read`."""
    new_horizon: int = await connection.fetchval(SQL.fetch_horizon)
    if horizon is None:
        agents = await connection.fetch(SQL.list_agents)
        nodes = await connection.fetch(SQL.list_nodes)
    else:
        agents = await connection.fetch(SQL.list_changed_agents, horizon)
        nodes = await connection.fetch(SQL.list_changed_nodes, horizon)
    return Changes([AgentRow(*row) for row in agents], [NodeRow(*row) for row in nodes], new_horizon)


async def reset_change_numbers(connection: Connection) -> None:
    """Call this before following the tables: a restored backup may come from a server whose transaction ids
    were greater."""
    await connection.execute(SQL.reset_agent_change_numbers)
    await connection.execute(SQL.reset_node_change_numbers)


# ---- monitoring --------------------------------------------------------------------------------------


async def fetch_monitoring_period(connection: Connection) -> tuple[int, int] | None:
    """From when to when a process has received heartbeats without interruption, locked until the transaction
    ends."""
    row = await connection.fetchrow(SQL.fetch_monitoring_period)
    return None if row is None else (row[0], row[1])


async def write_monitoring_period(connection: Connection, since: int, until: int) -> None:
    await connection.execute(SQL.write_monitoring_period, since, until)


async def fetch_oldest_heartbeat(connection: Connection, own_node: str) -> int | None:
    """The last heartbeat of the node or agent that has been silent longest."""
    oldest: int | None = await connection.fetchval(SQL.fetch_oldest_heartbeat, own_node)
    return oldest


async def expire_silent(connection: Connection, before: int, now_ms: int, own_node: str) -> list[AgentKey]:
    """Mark the agents whose last heartbeat is before that time as offline, and return them. Of several
    processes that call this, each agent is returned to one."""
    silent = [row[0] for row in await connection.fetch(SQL.mark_nodes_silent, before, now_ms, own_node)]
    expired = await connection.fetch(SQL.expire_agents_of_nodes, silent, now_ms) if silent else []
    expired += await connection.fetch(SQL.expire_agents, before, now_ms)
    return [(row[0], row[1]) for row in expired]


async def list_unannounced(connection: Connection, limit: int) -> list[AgentRow]:
    """The expired agents of which no process has announced yet that they are offline."""
    return [AgentRow(*row) for row in await connection.fetch(SQL.list_unannounced, limit)]


async def mark_announced(connection: Connection, rows: Sequence[AgentRow]) -> None:
    columns = zip(*((row.node_id, row.agent_id, row.gone_at) for row in rows), strict=True)
    if rows:
        await connection.execute(SQL.mark_announced, *(list(column) for column in columns))


async def try_lock_announcements(connection: Connection) -> bool:
    """Whether this transaction may announce expired agents; until it ends no other may."""
    locked: bool = await connection.fetchval(SQL.try_lock_announcements)
    return locked


def _columns(keys: Iterable[AgentKey]) -> tuple[list[str], list[str]]:
    pairs = list(keys)
    return [node_id for node_id, _ in pairs], [agent_id for _, agent_id in pairs]
