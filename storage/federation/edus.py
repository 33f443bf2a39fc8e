"""What is kept of the EDUs that other servers send: receipts, and which messages to devices were taken in.

Messages to devices of this server's users, until they are read.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "edus.sql")


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


async def insert_to_device(connection: Connection, origin: str, message_id: str) -> bool:
    """Whether this message comes for the first time."""
    return await connection.fetchval(SQL.insert_to_device, origin, message_id) is not None


async def prune_to_device(connection: Connection, age: timedelta) -> int:
    """Forget those that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_to_device, age)
    return forgotten


class NewMessage(NamedTuple):
    """In the order of the table's columns. `content` is JSON."""

    user_id: str
    device_id: str
    sender: str
    type: str
    content: bytes


class StoredMessage(NamedTuple):
    position: int
    user_id: str
    device_id: str
    sender: str
    type: str
    content: bytes


async def insert_messages(connection: Connection, rows: Sequence[NewMessage], most: int) -> None:
    """Keep those for users that there are, and of each user `most` at most: the oldest make way."""
    if rows:
        await connection.execute(SQL.insert_messages, *(list(column) for column in zip(*rows, strict=True)))
        await connection.execute(SQL.delete_oldest_messages, list({row.user_id for row in rows}), most)


async def fetch_messages(connection: Connection, user_id: str, limit: int) -> list[StoredMessage]:
    """The oldest."""
    return [StoredMessage(*row) for row in await connection.fetch(SQL.fetch_messages, user_id, limit)]


async def delete_messages(connection: Connection, user_id: str, positions: Collection[int]) -> None:
    """One by one: between two that were read there may be one that was not there yet."""
    await connection.execute(SQL.delete_messages, user_id, list(positions))
