"""Events and this server's verdict on each; relations, redactions, and the pages of a room's history."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "events.sql")

Verdict = Literal["accepted", "soft_failed", "rejected"]
Direction = Literal["forwards", "backwards"]

MAX_TIMESTAMP = 2**63 - 1
"""The largest value of the column. Before room version 6 `origin_server_ts` is unbounded."""


class EventRow(NamedTuple):
    """In the order of the table's columns. An event without `state_before` is an outlier."""

    event_id: str
    room_id: str
    type: str
    state_key: str | None
    sender: str
    depth: int
    origin_server_ts: int
    prev_events: Sequence[str]
    auth_events: Sequence[str]
    verdict: Verdict
    refusal: str | None
    state_before: int | None
    state_after: int | None
    canonical: bytes


class StoredEvent(NamedTuple):
    """The columns that are not part of the event itself, and the version of its room."""

    event_id: str
    version: str
    verdict: Verdict
    refusal: str | None
    state_before: int | None
    state_after: int | None
    canonical: bytes


class GraphEntry(NamedTuple):
    """An event in the graph of `prev_events`."""

    event_id: str
    depth: int
    prev_events: Sequence[str]


async def write_events(connection: Connection, rows: Sequence[EventRow]) -> None:
    """Insert events. An existing event stays as it is, unless it was an outlier and no longer is."""
    if rows:
        await connection.execute(SQL.write_events, rows)


async def fetch_events(connection: Connection, event_ids: Iterable[str]) -> list[StoredEvent]:
    """The events that are stored, in no order."""
    return [StoredEvent(*row) for row in await connection.fetch(SQL.fetch_events, list(event_ids))]


async def fetch_auth_edges(connection: Connection, event_ids: Iterable[str]) -> list[tuple[str, Sequence[str]]]:
    """The events and their auth chains, each with the ids of its auth events."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.fetch_auth_edges, list(event_ids))]


async def fetch_ancestors(
    connection: Connection, room_id: str, event_ids: Iterable[str], limit: int
) -> list[GraphEntry]:
    """These events and the events before them in the room, newest first, without outliers.

    They are selected by depth, which senders can choose freely: use this only to load at once what a walk
    through the graph will probably need.
    """
    return [GraphEntry(*row) for row in await connection.fetch(SQL.fetch_ancestors, room_id, list(event_ids), limit)]


async def fetch_graph_entries(connection: Connection, room_id: str, event_ids: Iterable[str]) -> list[GraphEntry]:
    """The graph entries of those events that are stored in the room and are not outliers."""
    return [GraphEntry(*row) for row in await connection.fetch(SQL.fetch_graph_entries, room_id, list(event_ids))]


async def fetch_backward_extremities(connection: Connection, room_id: str, limit: int) -> list[str]:
    """The newest backward extremities: events with a `prev_events` entry that is missing here or an
    outlier."""
    return [row[0] for row in await connection.fetch(SQL.fetch_backward_extremities, room_id, limit)]


def clamp_timestamp(time: int) -> int:
    """The timestamp, limited to the range of the column."""
    return max(-MAX_TIMESTAMP, min(time, MAX_TIMESTAMP))


async def fetch_least_depth(connection: Connection, room_id: str) -> int:
    """The smallest depth of the events of the room that are stored here."""
    depth: int = await connection.fetchval(SQL.fetch_least_depth, room_id)
    return depth


async def find_nearest(
    connection: Connection, room_id: str, timestamp: int, direction: Direction
) -> tuple[str, int] | None:
    """The accepted event closest to a time in that direction, and its own time."""
    sql = SQL.find_nearest_after if direction == "forwards" else SQL.find_nearest_before
    row = await connection.fetchrow(sql, room_id, clamp_timestamp(timestamp))
    return None if row is None else (row[0], row[1])


async def insert_relations(connection: Connection, rows: Sequence[tuple[str, str, str]]) -> None:
    """Insert rows of (target, rel_type, event id)."""
    if rows:
        await connection.execute(SQL.insert_relations, *(list(column) for column in zip(*rows, strict=True)))


async def fetch_relations(
    connection: Connection, room_id: str, target: str, rel_type: str | None, limit: int
) -> list[str]:
    """The events of the room that relate to the target, oldest first."""
    return [row[0] for row in await connection.fetch(SQL.fetch_relations, target, room_id, rel_type, limit)]


async def insert_redactions(connection: Connection, pairs: Sequence[tuple[str, str]]) -> None:
    """Insert pairs of (target, redaction)."""
    if pairs:
        await connection.execute(SQL.insert_redactions, *(list(column) for column in zip(*pairs, strict=True)))


async def fetch_redactions(connection: Connection, targets: Iterable[str]) -> list[tuple[str, str]]:
    """(target, redaction) for each redaction of one of these events."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.fetch_redactions, list(targets))]


class HistoryPosition(NamedTuple):
    """The sort key of an event in the room's history."""

    event_id: str
    depth: int
    origin_server_ts: int


START: Final = HistoryPosition("", -1, 0)
END: Final = HistoryPosition("", 2**63 - 1, 2**63 - 1)


async def fetch_page(
    connection: Connection, room_id: str, start: HistoryPosition, limit: int, *, backwards: bool
) -> list[HistoryPosition]:
    """The events after `start` in that direction, nearest first. `start` need not be the position of an
    event, and its time may be out of the column's range."""
    sql = SQL.fetch_page_backwards if backwards else SQL.fetch_page_forwards
    depth, time = clamp_timestamp(start.depth), clamp_timestamp(start.origin_server_ts)
    rows = await connection.fetch(sql, room_id, depth, time, start.event_id, limit)
    return [HistoryPosition(*row) for row in rows]
