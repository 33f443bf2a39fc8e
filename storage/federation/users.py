"""The users of this server and what they say of themselves."""

from typing import Any, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "users.sql")


class ProfileChange(NamedTuple):
    """The user's rooms have not all been told of it. A later change has another number."""

    user_id: str
    number: int


async def insert_user(connection: Connection, user_id: str, created_at: int) -> bool:
    """Whether there was no such user before."""
    return await connection.fetchval(SQL.insert_user, user_id, created_at) is not None


async def is_user(connection: Connection, user_id: str) -> bool:
    there: bool = await connection.fetchval(SQL.is_user, user_id)
    return there


async def list_users(connection: Connection, after: str, limit: int) -> list[str]:
    """By their ids."""
    return [user for (user,) in await connection.fetch(SQL.list_users, after, limit)]


async def fetch_profile(connection: Connection, user_id: str) -> dict[str, Any] | None:
    """None when there is no such user."""
    profile: dict[str, Any] | None = await connection.fetchval(SQL.fetch_profile, user_id)
    return profile


async def lock_profile(connection: Connection, user_id: str) -> dict[str, Any] | None:
    """The same, and nobody else changes it until the transaction ends."""
    profile: dict[str, Any] | None = await connection.fetchval(SQL.lock_profile, user_id)
    return profile


async def update_profile(connection: Connection, user_id: str, profile: dict[str, Any]) -> None:
    """jsonb holds no NUL: whoever calls this has looked for it."""
    await connection.execute(SQL.update_profile, user_id, profile)


async def insert_change(connection: Connection, user_id: str) -> None:
    """The user's rooms are to be told of what the profile says now."""
    await connection.execute(SQL.insert_change, user_id)


async def list_changes(connection: Connection, after: int, limit: int) -> list[ProfileChange]:
    """Those with higher numbers, the one that has waited longest first."""
    return [ProfileChange(*row) for row in await connection.fetch(SQL.list_changes, after, limit)]


async def delete_change(connection: Connection, change: ProfileChange) -> None:
    """It has been told of. If there was another one since, that one stays."""
    await connection.execute(SQL.delete_change, *change)
