"""Invites and knocks of local users for rooms without local members; Synapse calls them out-of-band
memberships. In all other rooms the memberships are in the room state."""

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
    """Insert or replace the membership, unless a newer one is stored."""
    await connection.execute(SQL.upsert_membership, *row)


async def fetch_membership(connection: Connection, room_id: str, user_id: str) -> OutsideMembership | None:
    row = await connection.fetchrow(SQL.fetch_membership, room_id, user_id)
    return None if row is None else OutsideMembership(*row)


async def list_memberships_of_user(connection: Connection, user_id: str) -> list[OutsideMembership]:
    """The memberships of the user, oldest first."""
    return [OutsideMembership(*row) for row in await connection.fetch(SQL.list_memberships_of_user, user_id)]


async def delete_membership(connection: Connection, room_id: str, user_id: str) -> bool:
    """False if there was none."""
    return await connection.fetchval(SQL.delete_membership, room_id, user_id) is not None


async def insert_invite(connection: Connection, row: OutsideMembership) -> bool:
    """Store an invite and append it to the stream. False if this invite is already stored. Call it late in
    the transaction, like everything that writes to the stream."""
    if await connection.fetchval(SQL.insert_invite, *row) is None:
        return False
    await room_stream.append(connection, [(row.room_id, row.event_id, "invite")])
    return True


async def fetch_by_events(connection: Connection, keys: Iterable[tuple[str, str]]) -> dict[str, OutsideMembership]:
    """The memberships that still exist, by event id, for pairs of (room id, event id)."""
    pairs = list(keys)
    rows = await connection.fetch(SQL.fetch_by_events, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    return {row.event_id: row for row in (OutsideMembership(*found) for found in rows)}
