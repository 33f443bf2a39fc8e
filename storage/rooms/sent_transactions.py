"""Which events have been made under which transaction ids. Written under the lock on the room's row."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "sent_transactions.sql")

TransactionKey = tuple[str, str]
"""A sender, and the transaction id that the sender gave."""


async def fetch_sent(
    connection: Connection, room_id: str, asked: Collection[TransactionKey]
) -> dict[TransactionKey, str]:
    """The ids of those events of the room that were made so."""
    if not asked:
        return {}
    rows = await connection.fetch(
        SQL.fetch_sent, room_id, [one[0] for one in asked], [one[1] for one in asked]
    )
    return {(row[0], row[1]): row[2] for row in rows}


async def insert_sent(connection: Connection, room_id: str, made: Mapping[TransactionKey, str]) -> bool:
    """Whether all of them are new. If they are not, nothing of the transaction may be committed."""
    if not made:
        return True
    inserted: int = await connection.fetchval(
        SQL.insert_sent, room_id, [one[0] for one in made], [one[1] for one in made], list(made.values())
    )
    return inserted == len(made)


async def prune_sent(connection: Connection, age: timedelta) -> int:
    """Forget those that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_sent, age)
    return forgotten
