"""Queries for operators only, across rooms, servers and queues. All of them are bounded."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "inspection.sql")

MAX_DEPTH: Final = 2**63 - 1


class StateEntry(NamedTuple):
    room_id: str
    type: str
    state_key: str
    event_id: str


class JoinedCounts(NamedTuple):
    """The number of joined members, of the local ones among them, and of their servers."""

    members: int
    local: int
    servers: int


class GraphNode(NamedTuple):
    """An event in the graph of `prev_events`."""

    event_id: str
    type: str
    state_key: str | None
    sender: str
    depth: int
    origin_server_ts: int
    prev_events: Sequence[str]
    verdict: str
    refusal: str | None


class Reference(NamedTuple):
    """An event that refers to another one in `prev_events` or `auth_events`."""

    event_id: str
    as_previous: bool
    as_auth: bool


class QueuedPduSummary(NamedTuple):
    """`type` is None if the event is not stored."""

    position: int
    room_id: str
    event_id: str
    queued_at: int
    type: str | None


class QueuedEduSummary(NamedTuple):
    position: int
    edu_type: str
    queued_at: int


# ---- finding -----------------------------------------------------------------------------------------


async def list_rooms_with_prefix(connection: Connection, prefix: str, limit: int) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_rooms_with_prefix, prefix, limit)]


async def list_events_with_prefix(connection: Connection, prefix: str, limit: int) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_events_with_prefix, prefix, limit)]


# ---- rooms -------------------------------------------------------------------------------------------


async def list_room_ids(connection: Connection, after: str, limit: int) -> list[str]:
    """The room ids after this one, in order."""
    return [row[0] for row in await connection.fetch(SQL.list_room_ids, after, limit)]


async def fetch_state_entries(
    connection: Connection, room_ids: Iterable[str], types: Iterable[str]
) -> list[StateEntry]:
    """The current state events of these types with an empty state key."""
    rows = await connection.fetch(SQL.fetch_state_entries, list(room_ids), list(types))
    return [StateEntry(*row) for row in rows]


async def count_joined(connection: Connection, room_ids: Iterable[str], server_name: str) -> dict[str, JoinedCounts]:
    """The counts by room, without rooms that have no joined member."""
    rows = await connection.fetch(SQL.count_joined, list(room_ids), server_name)
    return {row[0]: JoinedCounts(row[1], row[2], row[3]) for row in rows}


async def count_memberships(connection: Connection, room_id: str) -> dict[str, int]:
    """The number of members by membership. An event may contain any string as the membership."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.count_memberships, room_id)}


async def list_members_of_server(
    connection: Connection, room_id: str, server: str, memberships: Iterable[str], after: str, limit: int
) -> list[tuple[str, str]]:
    """(user id, membership), ordered by user id."""
    rows = await connection.fetch(SQL.list_members_of_server, room_id, server, list(memberships), after, limit)
    return [(row[0], row[1]) for row in rows]


async def list_outside_members(connection: Connection, room_id: str, after: str, limit: int) -> list[tuple[str, str]]:
    """(user id, membership) of local users who are invited into, or have knocked on, a room without local
    members."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.list_outside_members, room_id, after, limit)]


# ---- events ------------------------------------------------------------------------------------------


async def list_latest_events(connection: Connection, room_id: str, limit: int) -> list[str]:
    """The events accepted last, newest first."""
    return [row[0] for row in await connection.fetch(SQL.list_latest_events, room_id, limit)]


async def fetch_graph_nodes(connection: Connection, room_id: str, depth: int, limit: int) -> list[GraphNode]:
    """The events up to a depth, deepest first."""
    return [GraphNode(*row) for row in await connection.fetch(SQL.fetch_graph_nodes, room_id, depth, limit)]


async def fetch_verdicts(connection: Connection, event_ids: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """For each stored event: its verdict, and whether it is an outlier."""
    rows = await connection.fetch(SQL.fetch_verdicts, list(event_ids))
    return {row[0]: (row[1], row[2]) for row in rows}


async def find_references(
    connection: Connection, room_id: str, event_id: str, depth: int, *, searched: int, limit: int
) -> list[Reference]:
    """The events that refer to the event, among the first `searched` events of at least that depth."""
    rows = await connection.fetch(SQL.find_references, room_id, depth, event_id, searched, limit)
    return [Reference(*row) for row in rows]


# ---- other servers -----------------------------------------------------------------------------------


async def count_rooms_by_server(connection: Connection) -> dict[str, int]:
    """The number of rooms in which each server has a joined member."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.count_rooms_by_server)}


async def list_first_pdus(connection: Connection, destination: str, limit: int) -> list[QueuedPduSummary]:
    """The first PDUs in the queue to a server, oldest first."""
    return [QueuedPduSummary(*row) for row in await connection.fetch(SQL.list_first_pdus, destination, limit)]


async def list_first_edus(connection: Connection, destination: str, limit: int) -> list[QueuedEduSummary]:
    return [QueuedEduSummary(*row) for row in await connection.fetch(SQL.list_first_edus, destination, limit)]
