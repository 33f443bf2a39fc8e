"""Tokens with which Agents and Computers join offices. The caller checks whether a token is valid."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.offices", "tokens.sql")

MAX_TOKENS: Final = 10_000
"""Maximum number of tokens of a node, including expired and revoked ones."""
RETENTION_MS: Final = 30 * 24 * 3_600_000
"""How long an expired or revoked token is still listed."""
USE_RECORDED_EVERY_MS: Final = 60_000
"""Minimum time between two updates of `last_used_at`."""


class OfficeTokenRow(NamedTuple):
    """In the order of the table's columns. Times are milliseconds since 1970."""

    token_id: str
    hash: bytes
    owner: str
    roles: tuple[str, ...]
    offices: tuple[str, ...]
    made_at: int
    expires_at: int | None
    last_used_at: int | None = None
    revoked_at: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        """A token is no longer valid at the instant at which it expires."""
        return self.revoked_at is None and (self.expires_at is None or now_ms < self.expires_at)

    def is_use_due(self, now_ms: int) -> bool:
        """Whether `last_used_at` should be updated when the token is used now."""
        return self.last_used_at is None or self.last_used_at <= now_ms - USE_RECORDED_EVERY_MS


async def insert_token(connection: Connection, row: OfficeTokenRow) -> bool:
    """Delete tokens that ended long ago, and insert this one. False if there are too many tokens."""
    await connection.execute(SQL.lock_tokens)
    await connection.execute(SQL.delete_expired_tokens, row.made_at - RETENTION_MS)
    return await connection.fetchval(SQL.insert_token, *row[:7], MAX_TOKENS) is not None


async def fetch_token(connection: Connection, token_id: str) -> OfficeTokenRow | None:
    row = await connection.fetchrow(SQL.fetch_token, token_id)
    return None if row is None else _read(row)


async def list_tokens(connection: Connection) -> list[OfficeTokenRow]:
    """All tokens by owner, each owner's oldest first."""
    return [_read(row) for row in await connection.fetch(SQL.list_tokens)]


async def list_valid_ids(connection: Connection, token_ids: Collection[str], now_ms: int) -> frozenset[str]:
    """The ids of those tokens that are still valid."""
    return frozenset(row[0] for row in await connection.fetch(SQL.list_valid_ids, list(token_ids), now_ms))


async def record_use(connection: Connection, token_id: str, now_ms: int) -> None:
    await connection.execute(SQL.record_use, token_id, now_ms, USE_RECORDED_EVERY_MS)


async def revoke_token(connection: Connection, token_id: str, now_ms: int) -> bool:
    """Revoke the token. False if there is no such token."""
    return await connection.fetchval(SQL.revoke_token, token_id, now_ms) is not None


def _read(row: Any) -> OfficeTokenRow:
    token_id, kept, owner, roles, offices, *times = row
    return OfficeTokenRow(token_id, kept, owner, tuple(roles), tuple(offices), *times)
