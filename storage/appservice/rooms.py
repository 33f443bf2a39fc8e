"""Cached state of the homeserver's rooms in which this node has users.

A writer locks the registration first (`storage.appservice.events.lock_registration`), in the same
transaction. `record_change` and `storage.appservice.events.receive_transaction` do that themselves.

For operators: the number of ghosts and of their rooms, and lists of both.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

from asyncpg import Record

from storage.database import Connection
from storage.statements import load

SQL = load("storage.appservice", "rooms.sql")

Completeness = Literal["complete", "stale", "partial"]
"""`partial`: not all state was fetched. `stale`: all state was fetched, but long ago, and updated since."""


class StateEntry(NamedTuple):
    """In the order of the table's columns; the database sets the last three. `type` and `state_key` are
    UTF-8, `content` and `invite_state` are JSON."""

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
    """The columns of an entry that are read."""

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
    """The condition of a room when a fetch of its state begins: the number of times it was marked incomplete,
    and the number of the last change."""

    invalidations: int
    change: int


CachedState = tuple[Completeness, list[CachedEntry]]


async def fetch_entry(
    connection: Connection, room_id: str, type_: bytes, state_key: bytes, age: timedelta
) -> CachedState | None:
    """The cached entry, or None if the room is not cached."""
    return _known(await connection.fetch(SQL.fetch_entry, room_id, type_, state_key, age))


async def fetch_entries(
    connection: Connection, room_id: str, type_: bytes | None, memberships: Collection[str] | None, age: timedelta
) -> CachedState | None:
    """The cached entries of the room: all, those of one type, or the members with one of these memberships.
    None if the room is not cached."""
    listed = None if memberships is None else list(memberships)
    return _known(await connection.fetch(SQL.fetch_entries, room_id, type_, listed, age))


async def list_local_members(connection: Connection, room_id: str, limit: int) -> list[str]:
    """The local users joined to the room, those who joined first at the beginning."""
    return [row[0].decode() for row in await connection.fetch(SQL.list_local_members, room_id, limit)]


async def list_joined(connection: Connection, user: bytes) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_joined, user)]


async def list_invites(connection: Connection, user: bytes) -> list[StoredInvite]:
    return [StoredInvite(*row) for row in await connection.fetch(SQL.list_invites, user)]


async def fetch_local_membership(connection: Connection, room_id: str, user: bytes) -> str | None:
    """The last known membership of a local user, however complete the state of the room is."""
    membership: str | None = await connection.fetchval(SQL.fetch_local_membership, room_id, user)
    return membership


async def record_change(connection: Connection, registration: str, entry: StateEntry, trusted_for: timedelta) -> None:
    """Record a state event that a local user has sent, unless the homeserver has already sent it back."""
    await connection.execute(SQL.record_change, registration, entry, trusted_for)


async def begin_state_fetch(connection: Connection, room_id: str) -> StateFetch | None:
    """Call this before requesting the state of a room from the homeserver. None if the room is not cached."""
    row = await connection.fetchrow(SQL.begin_state_fetch, room_id)
    return None if row is None else StateFetch(*row)


async def merge_state(connection: Connection, room_id: str, fetch: StateFetch, entries: Sequence[StateEntry]) -> bool:
    """Store the fetched state, and return whether the room's state is complete now. No duplicate entries."""
    await connection.execute(SQL.merge_state, room_id, fetch.change, entries)
    return bool(await connection.fetchval(SQL.mark_complete, room_id, fetch.invalidations))


async def mark_incomplete(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.mark_incomplete, room_id)


async def delete_local_member(connection: Connection, room_id: str, user: bytes, fetch: StateFetch) -> None:
    """Delete the membership of a local user who turned out not to be joined when the fetch began."""
    await connection.execute(SQL.delete_local_member, room_id, user, fetch.change)


async def delete_room(connection: Connection, room_id: str) -> None:
    await connection.execute(SQL.delete_room, room_id)


async def are_rooms_loaded(connection: Connection, user: str) -> bool:
    """Whether all rooms of this user have been requested from the homeserver."""
    return bool(await connection.fetchval(SQL.are_rooms_loaded, user))


async def fetch_last_change(connection: Connection) -> int:
    """Call this before requesting all rooms of a user from the homeserver."""
    change: int = await connection.fetchval(SQL.fetch_last_change)
    return change


async def replace_rooms_of_user(connection: Connection, user: str, rooms: Sequence[str], change: int) -> None:
    """Replace the joined rooms of a user by those that the homeserver returned after this change."""
    await connection.execute(SQL.insert_rooms, rooms)
    await connection.execute(SQL.replace_memberships, user, rooms, change)
    await connection.execute(SQL.mark_rooms_loaded, user)


async def prune_rooms(connection: Connection) -> int:
    """Delete the rooms in which no local user is joined, invited or knocking, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_rooms)
    return deleted


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
    """The rooms with a joined ghost and an id greater than `after`, ordered by id."""
    return [GhostRoom(*row) for row in await connection.fetch(SQL.list_rooms, after, limit)]


async def list_ghosts(
    connection: Connection, room_id: str, memberships: Iterable[str], after: str, limit: int
) -> list[tuple[str, str]]:
    """(user id, membership) of the ghosts with one of these memberships in the room."""
    rows = await connection.fetch(SQL.list_ghosts, room_id, list(memberships), after, limit)
    return [(user, membership) for user, membership in rows]
