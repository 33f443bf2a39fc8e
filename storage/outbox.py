"""What waits to be sent to other servers, and the transaction that each has been sent and not answered."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "outbox.sql")

CHANNEL = "palaver_outbox"

TransactionState = Literal["in progress", "committed", "aborted"]


class QueuedPdu(NamedTuple):
    """`written_by` is the database transaction that queued it: before that has ended, it is not there."""

    destination: str
    room_id: str
    position: int
    written_by: str


class QueuedEdu(NamedTuple):
    destination: str
    position: int
    written_by: str


class StoredPdu(NamedTuple):
    """`canonical` is the event as peers get it."""

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


class Depth(NamedTuple):
    """How much waits for a server, and since when the oldest of it does."""

    destination: str
    pdus: int
    edus: int
    oldest: int


class InFlight(NamedTuple):
    """A transaction as it was first sent. `pdus` and `edus` are positions in the queue."""

    transaction_id: str
    origin_server_ts: int
    pdus: Sequence[int]
    edus: Sequence[int]


# ---- queueing ----------------------------------------------------------------------------------------


async def queue_pdus(
    connection: Connection, entries: Sequence[tuple[str, str, str]], now_ms: int
) -> list[QueuedPdu]:
    """Entries of (destination, room id, event id), in the order of the events."""
    if not entries:
        return []
    columns = (list(column) for column in zip(*entries, strict=True))
    return [QueuedPdu(*row) for row in await connection.fetch(SQL.queue_pdus, *columns, now_ms)]


async def queue_edu(
    connection: Connection, destinations: Iterable[str], edu_type: str, content: bytes, now_ms: int
) -> list[QueuedEdu]:
    rows = await connection.fetch(SQL.queue_edu, list(destinations), edu_type, content, now_ms)
    return [QueuedEdu(*row) for row in rows]


async def transaction_states(connection: Connection, ids: Iterable[str]) -> dict[str, TransactionState]:
    """What became of database transactions. One that Postgres has forgotten ended long ago; it counts as
    committed, since looking for its rows does no harm."""
    rows = await connection.fetch(SQL.transaction_states, list(ids))
    return {row[0]: row[1] or "committed" for row in rows}


# ---- one destination's queue -------------------------------------------------------------------------


async def oldest_pdus(connection: Connection, destination: str, room_id: str, limit: int) -> list[int]:
    return [row[0] for row in await connection.fetch(SQL.oldest_pdus, destination, room_id, limit)]


async def oldest_edus(connection: Connection, destination: str, limit: int) -> list[int]:
    return [row[0] for row in await connection.fetch(SQL.oldest_edus, destination, limit)]


async def survey(connection: Connection, destination: str) -> list[RoomBacklog]:
    """Every room of which something waits."""
    return [RoomBacklog(*row) for row in await connection.fetch(SQL.survey, destination)]


async def fetch_pdus(
    connection: Connection, destination: str, places: Sequence[tuple[str, int]]
) -> list[StoredPdu]:
    """The events at places of (room id, position), in order. What is no longer there is left out."""
    rows = await connection.fetch(SQL.fetch_pdus, destination, *_columns(places))
    return [StoredPdu(*row) for row in rows]


async def fetch_edus(connection: Connection, destination: str, positions: Sequence[int]) -> list[StoredEdu]:
    if not positions:
        return []
    return [StoredEdu(*row) for row in await connection.fetch(SQL.fetch_edus, destination, list(positions))]


async def delete_pdus(connection: Connection, destination: str, places: Sequence[tuple[str, int]]) -> None:
    if places:
        await connection.execute(SQL.delete_pdus, destination, *_columns(places))


async def delete_sent(connection: Connection, destination: str, places: Sequence[tuple[str, int]]) -> None:
    """The events that were in the transaction, and the transaction itself."""
    await connection.execute(SQL.delete_sent, destination, *_columns(places))


async def delete_answered(
    connection: Connection, destination: str, places: Sequence[tuple[str, int]], last: str
) -> None:
    """The events that were in transactions, and the last of those by its id, if it is still there."""
    await connection.execute(SQL.delete_answered, destination, *_columns(places), last)


async def delete_edus(connection: Connection, destination: str, positions: Sequence[int]) -> None:
    if positions:
        await connection.execute(SQL.delete_edus, destination, list(positions))


async def skip_pdus(connection: Connection, destination: str, room_id: str, keep: int) -> int:
    """Take what is older than a position out of the queue of one room; how many they were."""
    skipped: int = await connection.fetchval(SQL.skip_pdus, destination, room_id, keep)
    return skipped


def _columns(places: Sequence[tuple[str, int]]) -> tuple[list[str], list[int]]:
    return [room_id for room_id, _ in places], [position for _, position in places]


# ---- the transaction in flight -----------------------------------------------------------------------


async def insert_transaction(connection: Connection, destination: str, transaction: InFlight) -> None:
    """It takes the place of the one before, which has been answered or given up."""
    await connection.execute(
        SQL.insert_transaction,
        destination,
        transaction.transaction_id,
        transaction.origin_server_ts,
        list(transaction.pdus),
        list(transaction.edus),
    )


async def replace_sent(
    connection: Connection, destination: str, places: Sequence[tuple[str, int]], transaction: InFlight
) -> None:
    """`delete_sent` and `insert_transaction`."""
    await connection.execute(
        SQL.replace_sent,
        destination,
        *_columns(places),
        transaction.transaction_id,
        transaction.origin_server_ts,
        list(transaction.pdus),
        list(transaction.edus),
    )


async def fetch_transaction(connection: Connection, destination: str) -> InFlight | None:
    row = await connection.fetchrow(SQL.fetch_transaction, destination)
    return None if row is None else InFlight(*row)


async def delete_transaction(connection: Connection, destination: str) -> None:
    await connection.execute(SQL.delete_transaction, destination)


async def fetch_rooms_of_positions(
    connection: Connection, destination: str, positions: Sequence[int]
) -> list[tuple[int, str]]:
    """Those of the positions that are still in the queue, each with its room."""
    rows = await connection.fetch(SQL.fetch_rooms_of_positions, destination, list(positions))
    return [(row[0], row[1]) for row in rows]


# ---- all destinations --------------------------------------------------------------------------------


async def destinations(connection: Connection) -> list[str]:
    """Every server for which something waits."""
    return [row[0] for row in await connection.fetch(SQL.destinations)]


async def depths(connection: Connection) -> list[Depth]:
    return [Depth(*row) for row in await connection.fetch(SQL.depths)]


async def try_lock_destination(connection: Connection, destination: str) -> bool:
    """Whether this session is now the one that sends to that server. It stays so until it says otherwise or
    ends, in whatever way."""
    locked: bool = await connection.fetchval(SQL.try_lock_destination, destination)
    return locked


async def unlock_destination(connection: Connection, destination: str) -> None:
    await connection.execute(SQL.unlock_destination, destination)


async def notify(connection: Connection, message: str) -> None:
    """Tell the processes that send. Apart from the transaction that queued: a transaction that notifies keeps
    all others that do from committing at the same time."""
    await connection.execute(SQL.notify, message)
