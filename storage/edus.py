"""What is kept of the EDUs that other servers send: receipts, and which messages to devices were taken in."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "edus.sql")


class ReceiptRow(NamedTuple):
    """In the order of the table's columns. The thread is empty for a receipt that names none."""

    room_id: str
    user_id: str
    thread_id: str
    event_id: str
    ts: int


async def write_receipts(connection: Connection, rows: Sequence[ReceiptRow]) -> None:
    if rows:
        await connection.execute(SQL.upsert_receipts, rows)


async def fetch_receipts(connection: Connection, room_id: str) -> list[ReceiptRow]:
    return [ReceiptRow(*row) for row in await connection.fetch(SQL.fetch_receipts, room_id)]


async def take_in_to_device(connection: Connection, origin: str, message_id: str) -> bool:
    """Whether this message comes for the first time."""
    return await connection.fetchval(SQL.insert_to_device, origin, message_id) is not None


async def prune_to_device(connection: Connection, age: timedelta) -> int:
    """Forget those that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_to_device, age)
    return forgotten
