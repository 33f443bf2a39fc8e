"""Messages to devices of this server's users, until they are read."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "to_device.sql")


class NewMessage(NamedTuple):
    """In the order of the table's columns. `content` is JSON."""

    user_id: str
    device_id: str
    sender: str
    type: str
    content: bytes


class KeptMessage(NamedTuple):
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
        await connection.execute(SQL.drop_oldest, list({row.user_id for row in rows}), most)


async def transaction_id(connection: Connection) -> str:
    """Of the transaction in which something has been written."""
    given: str = await connection.fetchval(SQL.transaction_id)
    return given


async def fetch_messages(connection: Connection, user_id: str, limit: int) -> list[KeptMessage]:
    """The oldest."""
    return [KeptMessage(*row) for row in await connection.fetch(SQL.fetch_messages, user_id, limit)]


async def delete_messages(connection: Connection, user_id: str, positions: Collection[int]) -> None:
    """One by one: between two that were read there may be one that was not there yet."""
    await connection.execute(SQL.delete_messages, user_id, list(positions))
