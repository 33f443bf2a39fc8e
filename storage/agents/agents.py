"""Agents and the nodes on which they live, and who has been silent for how long.

Many processes write and all follow. A row bears the number of the transaction that changed it; whoever
follows asks for all that was written by transactions which had not ended when it asked last, and so misses
none, whatever the order in which they end.
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
"""Of an agent: (node id, agent id)."""


# ---- agents ------------------------------------------------------------------------------------------


async def find_agents(
    connection: Connection, node_id: str | None, agent_id: str | None, limit: int
) -> list[AgentRow]:
    """What is None is not looked at."""
    return [AgentRow(*row) for row in await connection.fetch(SQL.find_agents, node_id, agent_id, limit)]


async def lock_agents(connection: Connection, places: Iterable[AgentKey]) -> list[AgentRow]:
    """Those that there are. Nobody else changes them until the transaction has ended."""
    return [AgentRow(*row) for row in await connection.fetch(SQL.lock_agents, *_columns(places))]


async def write_agents(connection: Connection, rows: Sequence[AgentRow]) -> None:
    """A row that says something older than what is there changes nothing."""
    if not rows:
        return
    agent_ids, node_ids, connectors, runtimes, capabilities, *others = zip(*rows, strict=True)
    # asyncpg would take an array of arrays for one of two dimensions.
    as_json = [orjson.dumps(list(names)).decode() for names in capabilities]
    columns: list[Any] = [node_ids, agent_ids, connectors, runtimes, as_json]
    await connection.execute(SQL.write_agents, *columns, *others)


async def touch_agents(connection: Connection, heard: Sequence[tuple[str, str, int, int | None]]) -> None:
    """Of (node id, agent id, time of the word, when it was heard): nobody who follows is told."""
    if heard:
        columns = (list(column) for column in zip(*heard, strict=True))
        await connection.execute(SQL.touch_agents, *columns)


async def prune_agents(connection: Connection, gone_before: int, limit: int) -> int:
    """Up to `limit` of those that went before; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_agents, gone_before, limit)
    return forgotten


# ---- nodes -------------------------------------------------------------------------------------------


async def list_nodes(connection: Connection) -> list[NodeRow]:
    return [NodeRow(*row) for row in await connection.fetch(SQL.list_nodes)]


async def lock_nodes(connection: Connection, node_ids: Iterable[str]) -> list[NodeRow]:
    return [NodeRow(*row) for row in await connection.fetch(SQL.lock_nodes, list(node_ids))]


async def insert_nodes(connection: Connection, node_ids: Iterable[str], now_ms: int) -> None:
    """Those that are new, not trusted."""
    await connection.execute(SQL.insert_nodes, list(node_ids), now_ms)


async def write_node(
    connection: Connection, node_id: str, url: str | None, now_ms: int, *, trusted: bool
) -> None:
    """What the configuration says of it, or an operator."""
    await connection.execute(SQL.write_node, node_id, url, trusted, now_ms)


async def distrust_node(connection: Connection, node_id: str, now_ms: int) -> None:
    """Nothing is heard of it from now on, because nobody wants to; its agents are gone."""
    await connection.execute(SQL.mark_node_silent, node_id, now_ms)
    await connection.execute(SQL.distrust_agents, node_id, now_ms)


async def write_heartbeat(connection: Connection, node_id: str, now_ms: int, sent_at: int | None) -> None:
    """None: it is only a sign of life, and says nothing of the node's agents."""
    await connection.execute(SQL.write_heartbeat, node_id, now_ms, sent_at)


async def start_heartbeat_monitoring(connection: Connection, node_ids: Iterable[str], now_ms: int) -> None:
    """From now on these nodes are listened for, if they were not before, or not heard."""
    await connection.execute(SQL.start_heartbeat_monitoring, list(node_ids), now_ms)


# ---- following ---------------------------------------------------------------------------------------


class Changes(NamedTuple):
    """`horizon` is what to ask with for the next ones."""

    agents: list[AgentRow]
    nodes: list[NodeRow]
    horizon: int


async def list_changes(connection: Connection, horizon: int | None) -> Changes:
    """What was changed since; all there is, without a horizon. Some of it was given before. The transaction
    must be one that sees a single moment: `repeatable_read`."""
    new_horizon: int = await connection.fetchval(SQL.fetch_horizon)
    if horizon is None:
        agents = await connection.fetch(SQL.list_agents)
        nodes = await connection.fetch(SQL.list_nodes)
    else:
        agents = await connection.fetch(SQL.list_changed_agents, horizon)
        nodes = await connection.fetch(SQL.list_changed_nodes, horizon)
    return Changes([AgentRow(*row) for row in agents], [NodeRow(*row) for row in nodes], new_horizon)


async def reset_change_numbers(connection: Connection) -> None:
    """Before anything is followed: a restored backup may come from a server with greater numbers."""
    await connection.execute(SQL.reset_agent_change_numbers)
    await connection.execute(SQL.reset_node_change_numbers)


# ---- silence -----------------------------------------------------------------------------------------


async def fetch_monitoring_period(connection: Connection) -> tuple[int, int] | None:
    """Since when and until when somebody has listened. Nobody else changes it until the transaction ends."""
    row = await connection.fetchrow(SQL.fetch_monitoring_period)
    return None if row is None else (row[0], row[1])


async def write_monitoring_period(connection: Connection, since: int, until: int) -> None:
    await connection.execute(SQL.write_monitoring_period, since, until)


async def fetch_oldest_heartbeat(connection: Connection, own_node: str) -> int | None:
    """When whoever has been silent for longest was heard from last."""
    heard: int | None = await connection.fetchval(SQL.fetch_oldest_heartbeat, own_node)
    return heard


async def expire_silent(connection: Connection, before: int, now_ms: int, own_node: str) -> list[AgentKey]:
    """The agents that were last heard from before a time are gone from now on. Of all processes that ask, one
    is given each of them."""
    silent = [row[0] for row in await connection.fetch(SQL.mark_nodes_silent, before, now_ms, own_node)]
    lost = await connection.fetch(SQL.expire_agents_of_nodes, silent, now_ms) if silent else []
    lost += await connection.fetch(SQL.expire_agents, before, now_ms)
    return [(row[0], row[1]) for row in lost]


async def list_unannounced(connection: Connection, limit: int) -> list[AgentRow]:
    """Those of which nobody has announced yet that they are lost."""
    return [AgentRow(*row) for row in await connection.fetch(SQL.list_unannounced, limit)]


async def mark_announced(connection: Connection, told: Sequence[AgentRow]) -> None:
    columns = zip(*((row.node_id, row.agent_id, row.gone_at) for row in told), strict=True)
    if told:
        await connection.execute(SQL.mark_announced, *(list(column) for column in columns))


async def try_lock_announcements(connection: Connection) -> bool:
    """Whether this transaction is the one that announces; until it ends no other is."""
    locked: bool = await connection.fetchval(SQL.try_lock_announcements)
    return locked


def _columns(places: Iterable[AgentKey]) -> tuple[list[str], list[str]]:
    pairs = list(places)
    return [node_id for node_id, _ in pairs], [agent_id for _, agent_id in pairs]
