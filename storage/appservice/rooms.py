"""The state of the rooms in which users of ours are on the homeserver of which the node is a guest.

Whoever writes has locked the registration (`storage.appservice.events.lock_registration`), in the same
transaction; `record_change` does it by itself, and so does whoever takes in what the homeserver tells
(`storage.appservice.events.receive_transaction`).

How many ghosts there are, and in how many rooms; in which ones, for an operator.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

from asyncpg import Record

from storage.database import Connection
from storage.statements import load

SQL = load("storage.appservice", "rooms.sql")

Completeness = Literal["complete", "stale", "partial"]
"""`aged`: it was fetched a long time ago, and kept up since."""


class StateEntry(NamedTuple):
    """In the order of the table's columns, the last three of which the database gives. `type` and `state_key`
    are UTF-8, `content` and `invite_state` JSON."""

    room_id: str
    type: bytes
    state_key: bytes
    event_id: str
    sender: str
    ts: int
    content: bytes
    is_redacted: bool
    membership: str | None
    is_local: bool
    invite_state: bytes | None = None
    known_by: str | None = None
    ahead_until: None = None
    change: int | None = None


class CachedEntry(NamedTuple):
    """As much of it as is read."""

    event_id: str
    type: bytes
    state_key: bytes
    sender: str
    ts: int
    content: bytes
    is_redacted: bool


class StoredInvite(NamedTuple):
    room_id: str
    sender: str
    event_id: str
    invite_state: bytes | None


class StateFetch(NamedTuple):
    """What has to be known of a room when its state has been fetched. `change` is the last one before."""

    doubts: int
    change: int


CachedState = tuple[Completeness, list[CachedEntry]]


async def fetch_entry(
    connection: Connection, room_id: str, type_: bytes, state_key: bytes, age: timedelta
) -> CachedState | None:
    """None when nothing is known of the room."""
    return _known(await connection.fetch(SQL.fetch_entry, room_id, type_, state_key, age))


async def fetch_entries(
    connection: Connection,
    room_id: str,
    type_: bytes | None,
    memberships: Collection[str] | None,
    age: timedelta,
) -> CachedState | None:
    """All of them, those of one type, or those of members who are there as one of these."""
    listed = None if memberships is None else list(memberships)
    return _known(await connection.fetch(SQL.fetch_entries, room_id, type_, listed, age))


async def list_local_members(connection: Connection, room_id: str, limit: int) -> list[str]:
    """Users of ours who are in a room, those first who have been there for longest."""
    return [row[0].decode() for row in await connection.fetch(SQL.list_local_members, room_id, limit)]


async def list_joined(connection: Connection, user: bytes) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_joined, user)]


async def list_invites(connection: Connection, user: bytes) -> list[StoredInvite]:
    return [StoredInvite(*row) for row in await connection.fetch(SQL.list_invites, user)]


async def fetch_local_membership(connection: Connection, room_id: str, user: bytes) -> str | None:
    """What was last heard of a user of ours there, whatever else is known of the room."""
    membership: str | None = await connection.fetchval(SQL.fetch_local_membership, room_id, user)
    return membership


async def record_change(
    connection: Connection, registration: str, entry: StateEntry, believed: timedelta
) -> None:
    """What a user of ours did, unless the homeserver has told it already."""
    await connection.execute(SQL.record_change, registration, entry, believed)


async def begin_state_fetch(connection: Connection, room_id: str) -> StateFetch | None:
    """Before the homeserver is asked. None when the room is not known."""
    row = await connection.fetchrow(SQL.begin_state_fetch, room_id)
    return None if row is None else StateFetch(*row)


async def merge_state(
    connection: Connection, room_id: str, fetch: StateFetch, entries: Sequence[StateEntry]
) -> bool:
    """Keep what was fetched, each entry once; whether the room is whole by it."""
    await connection.execute(SQL.merge_state, room_id, fetch.change, entries)
    return bool(await connection.fetchval(SQL.mark_complete, room_id, fetch.doubts))


async def mark_incomplete(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.mark_incomplete, room_id)


async def delete_local_member(connection: Connection, room_id: str, user: bytes, fetch: StateFetch) -> None:
    """One who turned out not to be there, when the fetch began."""
    await connection.execute(SQL.delete_local_member, room_id, user, fetch.change)


async def delete_room(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.delete_room, room_id)


async def are_rooms_loaded(connection: Connection, user: str) -> bool:
    """Whether the homeserver was asked for all rooms of this user."""
    return bool(await connection.fetchval(SQL.are_rooms_loaded, user))


async def fetch_last_change(connection: Connection) -> int:
    """Before the homeserver is asked for all rooms of a user."""
    change: int = await connection.fetchval(SQL.fetch_last_change)
    return change


async def replace_rooms_of_user(connection: Connection, user: str, rooms: Sequence[str], change: int) -> None:
    """These are all in which the user is, as the homeserver said after this change."""
    await connection.execute(SQL.insert_rooms, rooms)
    await connection.execute(SQL.replace_memberships, user, rooms, change)
    await connection.execute(SQL.mark_rooms_loaded, user)


async def prune_rooms(connection: Connection) -> int:
    """Forget those in which nobody of ours is or is invited; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_rooms)
    return forgotten


def _known(rows: Sequence[Record]) -> CachedState | None:
    if not rows:
        return None
    completeness: Completeness = rows[0][0]
    return completeness, [CachedEntry(*row[1:]) for row in rows if row[1] is not None]


class GhostCounts(NamedTuple):
    ghosts: int
    rooms: int


class GhostRoom(NamedTuple):
    room_id: str
    ghosts: int


async def count_ghosts_and_rooms(connection: Connection) -> GhostCounts:
    ghosts, rooms = await connection.fetchval(SQL.count_ghosts), await connection.fetchval(SQL.count_rooms)
    return GhostCounts(ghosts, rooms)


async def list_rooms(connection: Connection, after: str, limit: int) -> list[GhostRoom]:
    """In which a ghost is, by their ids."""
    return [GhostRoom(*row) for row in await connection.fetch(SQL.list_rooms, after, limit)]


async def list_ghosts(
    connection: Connection, room_id: str, memberships: Iterable[str], after: str, limit: int
) -> list[tuple[str, str]]:
    """Those of ours who have one of these memberships in a room, and which."""
    rows = await connection.fetch(SQL.list_ghosts, room_id, list(memberships), after, limit)
    return [(user, membership) for user, membership in rows]
