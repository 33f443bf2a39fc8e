"""The events that local users have sent, by transaction id. Written under the lock on the room's row."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "sent_transactions.sql")

TransactionKey = tuple[str, str]
"""(sender, transaction id)."""


async def fetch_sent(
    connection: Connection, room_id: str, keys: Collection[TransactionKey]
) -> dict[TransactionKey, str]:
    """The ids of the events of the room that were sent under these transaction ids."""
    if not keys:
        return {}
    rows = await connection.fetch(SQL.fetch_sent, room_id, [key[0] for key in keys], [key[1] for key in keys])
    return {(row[0], row[1]): row[2] for row in rows}


async def insert_sent(connection: Connection, room_id: str, events: Mapping[TransactionKey, str]) -> bool:
    """Insert events by transaction id. False if one of the transaction ids exists; then the caller must roll
    back."""
    if not events:
        return True
    inserted: int = await connection.fetchval(
        SQL.insert_sent, room_id, [key[0] for key in events], [key[1] for key in events], list(events.values())
    )
    return inserted == len(events)


async def prune_sent(connection: Connection, age: timedelta) -> int:
    """Delete older rows, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_sent, age)
    return deleted
