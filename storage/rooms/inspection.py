"""What an operator looks at and nothing else asks for: across rooms, servers and queues, always bounded."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "inspection.sql")

GREATEST_DEPTH: Final = 2**63 - 1


class StateEntry(NamedTuple):
    room_id: str
    type: str
    state_key: str
    event_id: str


class JoinedCounts(NamedTuple):
    """How many are joined, how many of them are of one's own server, and of how many servers they all are."""

    members: int
    own: int
    servers: int


class GraphNode(NamedTuple):
    """An event with its place in the room's history."""

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
    """An event that names another one."""

    event_id: str
    as_previous: bool
    as_auth: bool


class QueuedPduSummary(NamedTuple):
    """`type` is None when the event is not there."""

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


async def rooms_beginning_with(connection: Connection, prefix: str, limit: int) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.rooms_beginning_with, prefix, limit)]


async def events_beginning_with(connection: Connection, prefix: str, limit: int) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.events_beginning_with, prefix, limit)]


# ---- rooms -------------------------------------------------------------------------------------------


async def room_ids_after(connection: Connection, after: str, limit: int) -> list[str]:
    """In the order of the ids."""
    return [row[0] for row in await connection.fetch(SQL.room_ids_after, after, limit)]


async def state_entries(
    connection: Connection, room_ids: Iterable[str], types: Iterable[str]
) -> list[StateEntry]:
    """Those of the entries with an empty state key that the rooms have."""
    rows = await connection.fetch(SQL.state_entries, list(room_ids), list(types))
    return [StateEntry(*row) for row in rows]


async def count_joined(connection: Connection, room_ids: Iterable[str], own: str) -> dict[str, JoinedCounts]:
    """By room; one in which nobody is joined is left out."""
    rows = await connection.fetch(SQL.count_joined, list(room_ids), own)
    return {row[0]: JoinedCounts(row[1], row[2], row[3]) for row in rows}


async def count_memberships(connection: Connection, room_id: str) -> dict[str, int]:
    """How many have each membership. What it is called is whatever an event says."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.count_memberships, room_id)}


async def members_of_server(
    connection: Connection, room_id: str, server: str, memberships: Iterable[str], after: str, limit: int
) -> list[tuple[str, str]]:
    """(user id, membership), in the order of the ids."""
    rows = await connection.fetch(SQL.members_of_server, room_id, server, list(memberships), after, limit)
    return [(row[0], row[1]) for row in rows]


async def outside_members(
    connection: Connection, room_id: str, after: str, limit: int
) -> list[tuple[str, str]]:
    """(user id, membership) of our users who are invited into, or knock at, a room that we are not in."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.outside_members, room_id, after, limit)]


# ---- events ------------------------------------------------------------------------------------------


async def latest_events(connection: Connection, room_id: str, limit: int) -> list[str]:
    """What was accepted last, newest first."""
    return [row[0] for row in await connection.fetch(SQL.latest_events, room_id, limit)]


async def nodes_of_graph(connection: Connection, room_id: str, depth: int, limit: int) -> list[GraphNode]:
    """The events up to a depth, the deepest first."""
    return [GraphNode(*row) for row in await connection.fetch(SQL.nodes_of_graph, room_id, depth, limit)]


async def verdicts(connection: Connection, event_ids: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Of those that are there: the verdict, and whether nobody knows where in the history it stands."""
    rows = await connection.fetch(SQL.verdicts, list(event_ids))
    return {row[0]: (row[1], row[2]) for row in rows}


async def find_references(
    connection: Connection, room_id: str, event_id: str, depth: int, *, look_at: int, limit: int
) -> list[Reference]:
    """Events of at least that depth which name the event, among the first `look_at` of them."""
    rows = await connection.fetch(SQL.find_references, room_id, depth, event_id, look_at, limit)
    return [Reference(*row) for row in rows]


# ---- other servers -----------------------------------------------------------------------------------


async def count_rooms_by_server(connection: Connection) -> dict[str, int]:
    """In how many rooms each server has somebody."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.count_rooms_by_server)}


async def first_pdus(connection: Connection, destination: str, limit: int) -> list[QueuedPduSummary]:
    """What waits for a server, oldest first."""
    return [QueuedPduSummary(*row) for row in await connection.fetch(SQL.first_pdus, destination, limit)]


async def first_edus(connection: Connection, destination: str, limit: int) -> list[QueuedEduSummary]:
    return [QueuedEduSummary(*row) for row in await connection.fetch(SQL.first_edus, destination, limit)]
