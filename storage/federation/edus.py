"""Stored EDUs: read receipts, and to-device messages until the local user has read them.

The ids of received to-device messages are stored as well, so that a repeated message is ignored.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "edus.sql")


class ReceiptRow(NamedTuple):
    """In the order of the table's columns. `thread_id` is empty for an unthreaded receipt."""

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
    """Record a received to-device message. False if it was received before."""
    return await connection.fetchval(SQL.insert_to_device, origin, message_id) is not None


async def prune_to_device(connection: Connection, age: timedelta) -> int:
    """Delete the ids of older received messages, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_to_device, age)
    return deleted


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
    """Store the messages for existing users, at most `most` for each; older messages are deleted."""
    if rows:
        await connection.execute(SQL.insert_messages, *(list(column) for column in zip(*rows, strict=True)))
        await connection.execute(SQL.delete_oldest_messages, list({row.user_id for row in rows}), most)


async def fetch_messages(connection: Connection, user_id: str, limit: int) -> list[StoredMessage]:
    """The oldest messages of the user."""
    return [StoredMessage(*row) for row in await connection.fetch(SQL.fetch_messages, user_id, limit)]


async def delete_messages(connection: Connection, user_id: str, positions: Collection[int]) -> None:
    """Delete by position rather than by range: a message may have been inserted between two that were
    read."""
    await connection.execute(SQL.delete_messages, user_id, list(positions))
