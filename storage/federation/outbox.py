"""The queues of PDUs and EDUs to other servers, and the outages of servers: since when a server does not
respond, how often sending failed, and when it is retried.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "outbox.sql")


class QueuedPdu(NamedTuple):
    """An event and its position in the queue to a server."""

    destination: str
    event_id: str
    position: int


class QueuedEdu(NamedTuple):
    destination: str
    position: int


class StoredPdu(NamedTuple):
    """`canonical` is the event in the form in which peers receive it."""

    position: int
    event_id: str
    canonical: bytes


class StoredEdu(NamedTuple):
    position: int
    edu_type: str
    content: bytes


class RoomBacklog(NamedTuple):
    room_id: str
    waiting: int
    newest: int


class QueueDepth(NamedTuple):
    """The number of queued PDUs and EDUs for a server, and when the oldest was queued."""

    destination: str
    pdus: int
    edus: int
    oldest: int


# ---- queueing ----------------------------------------------------------------------------------------


async def queue_pdus(connection: Connection, entries: Sequence[tuple[str, str, str]], now_ms: int) -> list[QueuedPdu]:
    """Queue entries of (destination, room id, event id), which are in the order of the events."""
    if not entries:
        return []
    columns = (list(column) for column in zip(*entries, strict=True))
    return [QueuedPdu(*row) for row in await connection.fetch(SQL.queue_pdus, *columns, now_ms)]


async def queue_edu(
    connection: Connection, destinations: Iterable[str], edu_type: str, content: bytes, now_ms: int
) -> list[QueuedEdu]:
    rows = await connection.fetch(SQL.queue_edu, list(destinations), edu_type, content, now_ms)
    return [QueuedEdu(*row) for row in rows]


# ---- one destination's queue -------------------------------------------------------------------------


async def list_oldest_pdus(connection: Connection, destination: str, room_id: str, limit: int) -> list[int]:
    return [row[0] for row in await connection.fetch(SQL.list_oldest_pdus, destination, room_id, limit)]


async def list_oldest_edus(connection: Connection, destination: str, limit: int) -> list[int]:
    return [row[0] for row in await connection.fetch(SQL.list_oldest_edus, destination, limit)]


async def fetch_backlogs(connection: Connection, destination: str) -> list[RoomBacklog]:
    """The rooms with queued events for the destination."""
    return [RoomBacklog(*row) for row in await connection.fetch(SQL.fetch_backlogs, destination)]


async def fetch_pdus(connection: Connection, destination: str, positions: Sequence[tuple[str, int]]) -> list[StoredPdu]:
    """The events at positions of (room id, position), in order. Deleted entries are left out."""
    rows = await connection.fetch(SQL.fetch_pdus, destination, *_columns(positions))
    return [StoredPdu(*row) for row in rows]


async def fetch_edus(connection: Connection, destination: str, positions: Sequence[int]) -> list[StoredEdu]:
    if not positions:
        return []
    return [StoredEdu(*row) for row in await connection.fetch(SQL.fetch_edus, destination, list(positions))]


async def delete_pdus(connection: Connection, destination: str, positions: Sequence[tuple[str, int]]) -> None:
    if positions:
        await connection.execute(SQL.delete_pdus, destination, *_columns(positions))


async def delete_edus(connection: Connection, destination: str, positions: Sequence[int]) -> None:
    if positions:
        await connection.execute(SQL.delete_edus, destination, list(positions))


async def skip_pdus(connection: Connection, destination: str, room_id: str, keep: int) -> int:
    """Delete the queued events of a room before the position `keep`, and return their number."""
    skipped: int = await connection.fetchval(SQL.skip_pdus, destination, room_id, keep)
    return skipped


def _columns(positions: Sequence[tuple[str, int]]) -> tuple[list[str], list[int]]:
    return [room_id for room_id, _ in positions], [position for _, position in positions]


# ---- all destinations --------------------------------------------------------------------------------


async def fetch_epoch(connection: Connection) -> str:
    """The identity of this database, generated at the first call. A database restored from a backup has
    another one, because the same queue positions may belong to different events in the two databases."""
    await connection.execute(SQL.insert_epoch)
    epoch: str = await connection.fetchval(SQL.fetch_epoch)
    return epoch


async def list_destinations(connection: Connection) -> list[str]:
    """The servers with queued PDUs or EDUs."""
    return [row[0] for row in await connection.fetch(SQL.list_destinations)]


async def list_depths(connection: Connection) -> list[QueueDepth]:
    return [QueueDepth(*row) for row in await connection.fetch(SQL.list_depths)]


class OutageRow(NamedTuple):
    """Times are milliseconds since 1970."""

    failing_since: int
    failures: int
    retry_at: int


async def write_outage(connection: Connection, destination: str, outage: OutageRow | None) -> None:
    """Store the outage of a server, or delete it (None) when the server responds again."""
    if outage is None:
        await connection.execute(SQL.delete_outage, destination)
    else:
        await connection.execute(SQL.upsert_outage, destination, *outage)


async def fetch_outage(connection: Connection, destination: str) -> OutageRow | None:
    row = await connection.fetchrow(SQL.fetch_outage, destination)
    return None if row is None else OutageRow(*row)


async def list_outages(connection: Connection) -> dict[str, OutageRow]:
    return {row[0]: OutageRow(*row[1:]) for row in map(tuple, await connection.fetch(SQL.list_outages))}
