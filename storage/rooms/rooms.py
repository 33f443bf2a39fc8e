"""Rooms, their current state, and state groups.

The lock on a room's row makes one process at a time its writer. The current state is a table, for queries
across rooms or for a few entries. A state group is a snapshot of a room's state, or the difference to its
parent group.
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
    """The rooms that exist, locked until the transaction ends."""
    return [RoomRow(*row) for row in await connection.fetch(SQL.lock_rooms, list(room_ids))]


async def fetch_rooms(connection: Connection, room_ids: Iterable[str]) -> list[RoomRow]:
    return [RoomRow(*row) for row in await connection.fetch(SQL.fetch_rooms, list(room_ids))]


async def list_rooms(connection: Connection) -> list[RoomRow]:
    return [RoomRow(*row) for row in await connection.fetch(SQL.list_rooms)]


async def insert_room(connection: Connection, row: RoomRow) -> bool:
    """Insert a room. False if it exists. Waits for a transaction that is inserting the same room."""
    return await connection.fetchval(SQL.insert_room, *row) is not None


async def update_rooms(connection: Connection, rows: Sequence[RoomRow]) -> None:
    if rows:
        await connection.execute(SQL.update_rooms, rows)


class CurrentStateRow(NamedTuple):
    """In the order of the table's columns. The last two are set for m.room.member events only."""

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
    """Write the entries of `set_`, and delete the entries with the keys (room id, type, state key) of
    `removed`."""
    if removed:
        await connection.execute(SQL.delete_entries, *(list(column) for column in zip(*removed, strict=True)))
    if set_:
        await connection.execute(SQL.upsert_entries, set_)


async def fetch_members(connection: Connection, room_id: str, memberships: Iterable[str] = ("join",)) -> list[Member]:
    return [Member(*row) for row in await connection.fetch(SQL.fetch_members, room_id, list(memberships))]


async def fetch_rooms_of_user(
    connection: Connection, user_id: str, memberships: Iterable[str] = ("join",)
) -> list[str]:
    rows = await connection.fetch(SQL.fetch_rooms_of_user, user_id, list(memberships))
    return [row[0] for row in rows]


async def count_joined_by_server(connection: Connection, room_id: str) -> dict[str, int]:
    """The number of joined members by server."""
    return {row[0]: row[1] for row in await connection.fetch(SQL.count_joined_by_server, room_id)}


async def has_member_of_server(connection: Connection, room_id: str, server: str, memberships: Iterable[str]) -> bool:
    """Whether a user of that server has one of these memberships."""
    has: bool = await connection.fetchval(SQL.has_member_of_server, room_id, list(memberships), server)
    return has


async def fetch_rooms_of_server(connection: Connection, server: str) -> list[str]:
    """The rooms with a joined member of this server."""
    return [row[0] for row in await connection.fetch(SQL.fetch_rooms_of_server, server)]


async def fetch_entries(
    connection: Connection, room_id: str, type_: str, state_keys: Iterable[str] | None = None
) -> dict[str, str]:
    """The current state events of one type: event ids by state key."""
    rows = await connection.fetch(SQL.fetch_entries, room_id, type_, None if state_keys is None else list(state_keys))
    return {row[0]: row[1] for row in rows}


async def fetch_rooms_of_users(connection: Connection, user_ids: Iterable[str]) -> dict[str, list[str]]:
    """The rooms that each user has joined, without users who have joined none."""
    rooms: dict[str, list[str]] = {}
    for user_id, room_id in await connection.fetch(SQL.fetch_rooms_of_users, list(user_ids)):
        rooms.setdefault(user_id, []).append(room_id)
    return rooms


async def fetch_entries_of_rooms(
    connection: Connection, room_ids: Iterable[str], type_: str, state_key: str
) -> dict[str, str]:
    """One entry of the current state in several rooms: event ids by room."""
    rows = await connection.fetch(SQL.fetch_entries_of_rooms, list(room_ids), type_, state_key)
    return {row[0]: row[1] for row in rows}


RESERVED_IDS = 64
"""The number of ids that one value of the sequence reserves; equals its INCREMENT in the schema."""


class StateGroupRow(NamedTuple):
    """In the order of the table's columns. The last three are parallel lists; an event id of None removes the
    key from the parent's state. `distance` is 0 for a snapshot, which has no parent."""

    id: int
    room_id: str
    parent: int | None
    distance: int
    types: Sequence[str]
    state_keys: Sequence[str]
    event_ids: Sequence[str | None]


async def reserve_ids(connection: Connection) -> range:
    """Reserve ids for this process. Unused ids are lost, which does no harm."""
    first = await connection.fetchval(SQL.reserve_ids)
    return range(first, first + RESERVED_IDS)


async def insert_state_groups(connection: Connection, rows: Sequence[StateGroupRow]) -> None:
    if rows:
        await connection.execute(SQL.insert_state_groups, rows)


async def fetch_chain(connection: Connection, group: int) -> list[StateGroupRow]:
    """The groups from the snapshot on which the group is based up to the group itself. Empty if there is no
    such group."""
    return [StateGroupRow(*row) for row in await connection.fetch(SQL.fetch_chain, group)]
