"""Local room aliases, the public room list, and the keys under which rooms were created.

A room is created under a key of its creator, so that a creator that was killed and tries again finds the same
room.
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
    """Insert an alias. False if it exists. Waits for a transaction that is inserting the same alias."""
    return await connection.fetchval(SQL.insert_alias, *row) is not None


async def fetch_alias(connection: Connection, alias: str) -> Alias | None:
    row = await connection.fetchrow(SQL.fetch_alias, alias)
    return None if row is None else Alias(*row)


async def delete_alias(connection: Connection, alias: str) -> bool:
    """False if there was none."""
    return await connection.fetchval(SQL.delete_alias, alias) is not None


async def list_aliases_of_room(connection: Connection, room_id: str) -> list[str]:
    """The aliases of the room, oldest first."""
    return [row[0] for row in await connection.fetch(SQL.list_aliases_of_room, room_id)]


async def publish_room(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.publish_room, room_id)


async def unpublish_room(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.unpublish_room, room_id)


async def is_published(connection: Connection, room_id: str) -> bool:
    published: bool = await connection.fetchval(SQL.is_published, room_id)
    return published


async def list_published_rooms(connection: Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_published_rooms)]


async def fetch_created(connection: Connection, creator: str, key: str) -> str | None:
    room_id: str | None = await connection.fetchval(SQL.fetch_created, creator, key)
    return room_id


async def insert_created(connection: Connection, creator: str, key: str, room_id: str) -> bool:
    """Record the room created under the key. False if there is one. Waits for a transaction that is inserting
    the same key."""
    return await connection.fetchval(SQL.insert_created, creator, key, room_id) is not None


async def delete_created(connection: Connection, creator: str, key: str) -> None:
    await connection.execute(SQL.delete_created, creator, key)


async def delete_created_room(connection: Connection, room_id: str) -> None:
    """Delete all keys under which the room was created."""
    await connection.execute(SQL.delete_created_room, room_id)


async def move_to_room(connection: Connection, old_room: str, new_room: str) -> None:
    """Move the aliases and the entry in the public room list to a room that has neither yet, at a room
    upgrade."""
    await connection.execute(SQL.move_aliases, old_room, new_room)
    await connection.execute(SQL.move_publication, old_room, new_room)
