"""Rooms: where each of them stands, and the lock that makes one process at a time its writer."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "rooms.sql")


class RoomRow(NamedTuple):
    """In the order of the table's columns."""

    room_id: str
    version: str
    generation: int
    forward_extremities: Sequence[str]
    state_group: int


async def lock_rooms(connection: Connection, room_ids: Iterable[str]) -> list[RoomRow]:
    """Those of the rooms that exist, each locked until the transaction ends."""
    return [RoomRow(*row) for row in await connection.fetch(SQL.lock_rooms, list(room_ids))]


async def fetch_rooms(connection: Connection, room_ids: Iterable[str]) -> list[RoomRow]:
    return [RoomRow(*row) for row in await connection.fetch(SQL.fetch_rooms, list(room_ids))]


async def list_rooms(connection: Connection) -> list[RoomRow]:
    return [RoomRow(*row) for row in await connection.fetch(SQL.list_rooms)]


async def insert_room(connection: Connection, row: RoomRow) -> bool:
    """Whether it was not there before. Another process that inserts it at the same time is waited for."""
    return await connection.fetchval(SQL.insert_room, *row) is not None


async def update_rooms(connection: Connection, rows: Sequence[RoomRow]) -> None:
    if rows:
        await connection.execute(SQL.update_rooms, rows)
