"""How many ghosts there are, and in how many rooms; in which ones, for an operator."""

from collections.abc import Iterable
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "guest_figures.sql")


class Figures(NamedTuple):
    ghosts: int
    rooms: int


class RoomOfGhosts(NamedTuple):
    room_id: str
    ghosts: int


async def count(connection: Connection) -> Figures:
    ghosts, rooms = await connection.fetchval(SQL.count_ghosts), await connection.fetchval(SQL.count_rooms)
    return Figures(ghosts, rooms)


async def list_rooms(connection: Connection, after: str, limit: int) -> list[RoomOfGhosts]:
    """In which a ghost is, by their ids."""
    return [RoomOfGhosts(*row) for row in await connection.fetch(SQL.list_rooms, after, limit)]


async def list_ghosts(
    connection: Connection, room_id: str, memberships: Iterable[str], after: str, limit: int
) -> list[tuple[str, str]]:
    """Those of ours who have one of these memberships in a room, and which."""
    rows = await connection.fetch(SQL.list_ghosts, room_id, list(memberships), after, limit)
    return [(user, membership) for user, membership in rows]
