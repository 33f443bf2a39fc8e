"""Rooms: where each of them stands, and the lock that makes one process at a time its writer.

The current state of rooms as a table, for questions that go across rooms or need a few of its entries.

States of rooms, each a snapshot or what changed since another one.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.rooms", "rooms.sql")


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


RESERVED_IDS = 64
"""How many ids one step of the sequence stands for. The migration says the same."""


class StateGroupRow(NamedTuple):
    """In the order of the table's columns. The last three run in parallel; an event id that is None takes the
    key out of the parent's state. `distance` is 0 for a snapshot, which has no parent."""

    id: int
    room_id: str
    parent: int | None
    distance: int
    types: Sequence[str]
    state_keys: Sequence[str]
    event_ids: Sequence[str | None]


async def reserve_ids(connection: Connection) -> range:
    """Ids that nobody else gets. Those that are not used are lost, which is no harm."""
    first = await connection.fetchval(SQL.reserve_ids)
    return range(first, first + RESERVED_IDS)


async def insert_state_groups(connection: Connection, rows: Sequence[StateGroupRow]) -> None:
    if rows:
        await connection.execute(SQL.insert_state_groups, rows)


async def fetch_chain(connection: Connection, group: int) -> list[StateGroupRow]:
    """The snapshot that a group rests on and everything up to the group, oldest first. Empty when there is no
    such group."""
    return [StateGroupRow(*row) for row in await connection.fetch(SQL.fetch_chain, group)]
