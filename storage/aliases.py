"""The names that this server gives to rooms, and the rooms that it lists in public."""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "aliases.sql")


class Alias(NamedTuple):
    """In the order of the table's columns."""

    alias: str
    room_id: str
    creator: str
    created_at: int


async def insert_alias(connection: Connection, row: Alias) -> bool:
    """Whether it was free. Another process that inserts it at the same time is waited for."""
    return await connection.fetchval(SQL.insert_alias, *row) is not None


async def fetch_alias(connection: Connection, alias: str) -> Alias | None:
    row = await connection.fetchrow(SQL.fetch_alias, alias)
    return None if row is None else Alias(*row)


async def delete_alias(connection: Connection, alias: str) -> bool:
    """Whether it was there."""
    return await connection.fetchval(SQL.delete_alias, alias) is not None


async def list_aliases_of_room(connection: Connection, room_id: str) -> list[str]:
    """The oldest first."""
    return [row[0] for row in await connection.fetch(SQL.list_aliases_of_room, room_id)]


async def publish_room(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.publish_room, room_id)


async def unpublish_room(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.unpublish_room, room_id)


async def is_published(connection: Connection, room_id: str) -> bool:
    there: bool = await connection.fetchval(SQL.is_published, room_id)
    return there


async def list_published_rooms(connection: Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_published_rooms)]
