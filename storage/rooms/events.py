"""Events, with what this server made of each.

Which events relate to which.

Which redactions ask for which events.

A room's accepted events in the order of its history, page by page.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "events.sql")

Verdict = Literal["accepted", "soft_failed", "rejected"]
Direction = Literal["forwards", "backwards"]

MAX_TIMESTAMP = 2**63 - 1
"""In the column: before version 6 an event may say any time."""


class EventRow(NamedTuple):
    """In the order of the table's columns. It is an outlier if it has no state before it."""

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
    """As much of a row as the event itself does not say, and the version of its room."""

    event_id: str
    version: str
    verdict: Verdict
    refusal: str | None
    state_before: int | None
    state_after: int | None
    canonical: bytes


class GraphEntry(NamedTuple):
    """An event's place in the history."""

    event_id: str
    depth: int
    prev_events: Sequence[str]


async def write_events(connection: Connection, rows: Sequence[EventRow]) -> None:
    """Events that are there already stay as they are, but for an outlier that finds its place."""
    if rows:
        await connection.execute(SQL.write_events, rows)


async def fetch_events(connection: Connection, event_ids: Iterable[str]) -> list[StoredEvent]:
    """Those of the events that are there, in no order."""
    return [StoredEvent(*row) for row in await connection.fetch(SQL.fetch_events, list(event_ids))]


async def fetch_auth_edges(
    connection: Connection, event_ids: Iterable[str]
) -> list[tuple[str, Sequence[str]]]:
    """The events and their auth chains: each with the ids of its auth events."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.fetch_auth_edges, list(event_ids))]


async def fetch_ancestors(
    connection: Connection, room_id: str, event_ids: Iterable[str], limit: int
) -> list[GraphEntry]:
    """These events and what lies before them in the room, newest first; no outliers.

    By depth, which senders make up: it is good for loading at once what a walk will need, and for no more.
    """
    return [
        GraphEntry(*row)
        for row in await connection.fetch(SQL.fetch_ancestors, room_id, list(event_ids), limit)
    ]


async def fetch_graph_entries(
    connection: Connection, room_id: str, event_ids: Iterable[str]
) -> list[GraphEntry]:
    """Of those of the events that have one in the room."""
    return [
        GraphEntry(*row) for row in await connection.fetch(SQL.fetch_graph_entries, room_id, list(event_ids))
    ]


async def fetch_backward_extremities(connection: Connection, room_id: str, limit: int) -> list[str]:
    """The newest of those events that follow one which has no place here: before them there is more."""
    return [row[0] for row in await connection.fetch(SQL.fetch_backward_extremities, room_id, limit)]


def clamp_timestamp(time: int) -> int:
    """As the column holds it."""
    return max(-MAX_TIMESTAMP, min(time, MAX_TIMESTAMP))


async def fetch_least_depth(connection: Connection, room_id: str) -> int:
    """At which depth the history begins that is known here."""
    depth: int = await connection.fetchval(SQL.fetch_least_depth, room_id)
    return depth


async def find_nearest(
    connection: Connection, room_id: str, timestamp: int, direction: Direction
) -> tuple[str, int] | None:
    """The accepted event that is next to a time, and its own time."""
    sql = SQL.find_nearest_after if direction == "forwards" else SQL.find_nearest_before
    row = await connection.fetchrow(sql, room_id, clamp_timestamp(timestamp))
    return None if row is None else (row[0], row[1])


async def insert_relations(connection: Connection, rows: Sequence[tuple[str, str, str]]) -> None:
    """Rows of the target, how an event relates to it, and that event."""
    if rows:
        await connection.execute(SQL.insert_relations, *(list(column) for column in zip(*rows, strict=True)))


async def fetch_relations(
    connection: Connection, room_id: str, target: str, rel_type: str | None, limit: int
) -> list[str]:
    """The events of that room which relate to the target, oldest first."""
    return [row[0] for row in await connection.fetch(SQL.fetch_relations, target, room_id, rel_type, limit)]


async def insert_redactions(connection: Connection, pairs: Sequence[tuple[str, str]]) -> None:
    """Pairs of the event that is to be redacted and the redaction that asks for it."""
    if pairs:
        await connection.execute(
            SQL.insert_redactions, *(list(column) for column in zip(*pairs, strict=True))
        )


async def fetch_redactions(connection: Connection, targets: Iterable[str]) -> list[tuple[str, str]]:
    """(target, redaction) for each redaction that asks for one of these events."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.fetch_redactions, list(targets))]


class HistoryPosition(NamedTuple):
    """Where an event stands in that order."""

    event_id: str
    depth: int
    origin_server_ts: int


START: Final = HistoryPosition("", -1, 0)
END: Final = HistoryPosition("", 2**63 - 1, 2**63 - 1)


async def fetch_page(
    connection: Connection, room_id: str, start: HistoryPosition, limit: int, *, backwards: bool
) -> list[HistoryPosition]:
    """What follows the spot in that direction, nearest first. The spot itself need not be an event's, and an
    event's may be at any time."""
    sql = SQL.fetch_page_backwards if backwards else SQL.fetch_page_forwards
    depth, time = clamp_timestamp(start.depth), clamp_timestamp(start.origin_server_ts)
    rows = await connection.fetch(sql, room_id, depth, time, start.event_id, limit)
    return [HistoryPosition(*row) for row in rows]
