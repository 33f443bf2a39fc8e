"""Invites into, and knocks at, rooms that this server is not in. For all other rooms their state says it."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from storage.database import Connection
from storage.rooms import stream as room_stream
from storage.statements import load

SQL = load("storage.rooms", "outside_memberships.sql")


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
    """The newest one counts, whichever is written first."""
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


async def insert_invite(connection: Connection, row: OutsideMembership) -> bool:
    """Keep it and give it its place in the stream. False when it is kept already. Late in a transaction, as
    everything that writes to the stream."""
    if await connection.fetchval(SQL.insert_invite, *row) is None:
        return False
    await room_stream.append(connection, [(row.room_id, row.event_id, "invite")])
    return True


async def fetch_by_events(
    connection: Connection, wanted: Iterable[tuple[str, str]]
) -> dict[str, OutsideMembership]:
    """By the id of the event, for pairs of a room and an event: what of them still stands."""
    pairs = list(wanted)
    rows = await connection.fetch(
        SQL.fetch_by_events, [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    )
    return {row.event_id: row for row in (OutsideMembership(*found) for found in rows)}
