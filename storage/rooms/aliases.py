"""The names that this server gives to rooms, and the rooms that it lists in public.

Which rooms were made under which keys, so that whoever asked and was killed finds the room again.

What in the directory goes from a room to the one that follows it.
"""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "aliases.sql")


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


async def fetch_created(connection: Connection, creator: str, key: str) -> str | None:
    room_id: str | None = await connection.fetchval(SQL.fetch_created, creator, key)
    return room_id


async def insert_created(connection: Connection, creator: str, key: str, room_id: str) -> bool:
    """Whether there was none. Another process that inserts it at the same time is waited for."""
    return await connection.fetchval(SQL.insert_created, creator, key, room_id) is not None


async def delete_created(connection: Connection, creator: str, key: str) -> None:
    await connection.execute(SQL.delete_created, creator, key)


async def delete_created_room(connection: Connection, room_id: str) -> None:
    """Under whichever keys it was made."""
    await connection.execute(SQL.delete_created_room, room_id)


async def move_to_room(connection: Connection, old_room: str, new_room: str) -> None:
    """The aliases and the place on the public list. The new room has none of its own yet."""
    await connection.execute(SQL.move_aliases, old_room, new_room)
    await connection.execute(SQL.move_publication, old_room, new_room)
