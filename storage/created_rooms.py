"""Which rooms were made under which keys, so that whoever asked and was killed finds the room again."""

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "created_rooms.sql")


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
