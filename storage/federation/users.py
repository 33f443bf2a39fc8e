"""The users of this server and their profiles."""

from typing import Any, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "users.sql")


class ProfileChange(NamedTuple):
    """A profile change that has not been sent to all rooms of the user. A later change has another number."""

    user_id: str
    number: int


async def insert_user(connection: Connection, user_id: str, created_at: int) -> bool:
    """Insert a user. False if the user exists."""
    return await connection.fetchval(SQL.insert_user, user_id, created_at) is not None


async def is_user(connection: Connection, user_id: str) -> bool:
    exists: bool = await connection.fetchval(SQL.is_user, user_id)
    return exists


async def list_users(connection: Connection, after: str, limit: int) -> list[str]:
    """The users with an id greater than `after`, ordered by id."""
    return [user for (user,) in await connection.fetch(SQL.list_users, after, limit)]


async def fetch_profile(connection: Connection, user_id: str) -> dict[str, Any] | None:
    """The user's profile, or None if there is no such user."""
    profile: dict[str, Any] | None = await connection.fetchval(SQL.fetch_profile, user_id)
    return profile


async def lock_profile(connection: Connection, user_id: str) -> dict[str, Any] | None:
    """Fetch the profile and lock it until the transaction ends."""
    profile: dict[str, Any] | None = await connection.fetchval(SQL.lock_profile, user_id)
    return profile


async def update_profile(connection: Connection, user_id: str, profile: dict[str, Any]) -> None:
    """The caller has checked that the profile contains no NUL, which jsonb cannot store."""
    await connection.execute(SQL.update_profile, user_id, profile)


async def insert_change(connection: Connection, user_id: str) -> None:
    """Record that the profile has changed and has to be sent to the user's rooms."""
    await connection.execute(SQL.insert_change, user_id)


async def list_changes(connection: Connection, after: int, limit: int) -> list[ProfileChange]:
    """The changes with a number greater than `after`, oldest first."""
    return [ProfileChange(*row) for row in await connection.fetch(SQL.list_changes, after, limit)]


async def delete_change(connection: Connection, change: ProfileChange) -> None:
    """Delete a change that has been sent to all rooms. A later change of the same user is kept."""
    await connection.execute(SQL.delete_change, *change)
