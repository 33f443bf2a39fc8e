"""Double puppets: people in whose name this node may send. The key that seals their tokens is stored
elsewhere."""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.people", "double_puppets.sql")


class PuppetRow(NamedTuple):
    """In the order of the table's columns. Times are milliseconds since 1970."""

    user_id: str
    login_id: str
    sealed: bytes
    made_at: int
    refused_at: int | None = None


async def upsert_puppet(connection: Connection, row: PuppetRow) -> None:
    """Insert or replace the double puppet of a person, and clear `refused_at`."""
    await connection.execute(SQL.upsert_puppet, *row[:4])


async def fetch_puppet(connection: Connection, user_id: str) -> PuppetRow | None:
    row = await connection.fetchrow(SQL.fetch_puppet, user_id)
    return None if row is None else PuppetRow(*row)


async def mark_puppet_refused(connection: Connection, user_id: str, login_id: str, now_ms: int) -> None:
    """Record that the homeserver rejects the token. A second call keeps the first time."""
    await connection.execute(SQL.mark_puppet_refused, user_id, login_id, now_ms)


async def delete_puppet(connection: Connection, user_id: str, login_id: str) -> bool:
    """Delete the person's token with this login id. Returns whether there was one."""
    return await connection.fetchval(SQL.delete_puppet, user_id, login_id) is not None
