"""The current state of rooms as a table, for questions that go across rooms or need a few of its entries."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "current_state.sql")


class CurrentStateRow(NamedTuple):
    """In the order of the table's columns. The last two are of m.room.member events."""

    room_id: str
    type: str
    state_key: str
    event_id: str
    membership: str | None
    server: str | None


class Member(NamedTuple):
    user_id: str
    membership: str
    event_id: str


async def write_current_state(
    connection: Connection, set_: Sequence[CurrentStateRow], removed: Sequence[tuple[str, str, str]] = ()
) -> None:
    """Entries that are set, and the (room id, type, state key) of those that are no more."""
    if removed:
        await connection.execute(SQL.delete_entries, *(list(column) for column in zip(*removed, strict=True)))
    if set_:
        await connection.execute(SQL.upsert_entries, set_)


async def fetch_members(
    connection: Connection, room_id: str, memberships: Iterable[str] = ("join",)
) -> list[Member]:
    return [Member(*row) for row in await connection.fetch(SQL.fetch_members, room_id, list(memberships))]


async def fetch_rooms_of_user(
    connection: Connection, user_id: str, memberships: Iterable[str] = ("join",)
) -> list[str]:
    rows = await connection.fetch(SQL.fetch_rooms_of_user, user_id, list(memberships))
    return [row[0] for row in rows]


async def count_joined_by_server(connection: Connection, room_id: str) -> dict[str, int]:
    """How many members of each server are joined."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.count_joined_by_server, room_id)}


async def has_member_of_server(
    connection: Connection, room_id: str, server: str, memberships: Iterable[str]
) -> bool:
    """Whether somebody of that server has one of these memberships."""
    has: bool = await connection.fetchval(SQL.has_member_of_server, room_id, list(memberships), server)
    return has


async def fetch_rooms_of_server(connection: Connection, server: str) -> list[str]:
    """The rooms that somebody of this server has joined."""
    return [row[0] for row in await connection.fetch(SQL.fetch_rooms_of_server, server)]


async def fetch_entries(
    connection: Connection, room_id: str, type_: str, state_keys: Iterable[str] | None = None
) -> dict[str, str]:
    """Event ids by state key, of one type of state event."""
    rows = await connection.fetch(
        SQL.fetch_entries, room_id, type_, None if state_keys is None else list(state_keys)
    )
    return {row[0]: row[1] for row in rows}


async def fetch_rooms_of_users(connection: Connection, user_ids: Iterable[str]) -> dict[str, list[str]]:
    """The rooms that each of the users has joined; those who have joined none are left out."""
    rooms: dict[str, list[str]] = {}
    for user_id, room_id in await connection.fetch(SQL.fetch_rooms_of_users, list(user_ids)):
        rooms.setdefault(user_id, []).append(room_id)
    return rooms


async def fetch_entries_of_rooms(
    connection: Connection, room_ids: Iterable[str], type_: str, state_key: str
) -> dict[str, str]:
    """Event ids by room, of one entry of the state."""
    rows = await connection.fetch(SQL.fetch_entries_of_rooms, list(room_ids), type_, state_key)
    return {row[0]: row[1] for row in rows}
