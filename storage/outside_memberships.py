"""Invites into, and knocks at, rooms that this server is not in. For all other rooms their state says it."""

from typing import Literal, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "outside_memberships.sql")


class OutsideMembership(NamedTuple):
    """In the order of the table's columns. `event` and `stripped_state` are JSON."""

    room_id: str
    user_id: str
    membership: Literal["invite", "knock"]
    version: str
    event_id: str
    sender: str
    server: str
    event: bytes
    stripped_state: bytes
    received_at: int


async def write_membership(connection: Connection, row: OutsideMembership) -> None:
    """The newest one counts."""
    await connection.execute(SQL.upsert_membership, *row)


async def fetch_membership(connection: Connection, room_id: str, user_id: str) -> OutsideMembership | None:
    row = await connection.fetchrow(SQL.fetch_membership, room_id, user_id)
    return None if row is None else OutsideMembership(*row)


async def list_memberships_of_user(connection: Connection, user_id: str) -> list[OutsideMembership]:
    """Oldest first."""
    return [OutsideMembership(*row) for row in await connection.fetch(SQL.list_memberships_of_user, user_id)]


async def delete_membership(connection: Connection, room_id: str, user_id: str) -> bool:
    """Whether there was one."""
    return await connection.fetchval(SQL.delete_membership, room_id, user_id) is not None
