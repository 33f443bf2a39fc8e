"""What in the directory goes from a room to the one that follows it."""

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "room_moves.sql")


async def move_names(connection: Connection, old_room: str, new_room: str) -> None:
    """The aliases and the place on the public list. The new room has none of its own yet."""
    await connection.execute(SQL.move_aliases, old_room, new_room)
    await connection.execute(SQL.move_publication, old_room, new_room)
