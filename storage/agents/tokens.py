"""Tokens of attached agents. The caller checks whether a token is valid."""

from typing import Final, NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.agents", "tokens.sql")

MAX_TOKENS: Final = 100
"""Maximum number of tokens of one agent, including expired and revoked ones."""
RETENTION_MS: Final = 30 * 24 * 3_600_000
"""How long an expired or revoked token is still listed."""


class TokenRow(NamedTuple):
    """In the order of the table's columns. Times are milliseconds since 1970."""

    token_id: str
    agent_id: str
    hash: bytes
    note: str
    created_at: int
    expires_at: int | None
    last_used_at: int | None = None
    revoked_at: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        """A token is no longer valid at the instant at which it expires."""
        return self.revoked_at is None and (self.expires_at is None or now_ms < self.expires_at)


async def insert_token(connection: Connection, row: TokenRow) -> bool:
    """Delete tokens that ended long ago, and insert this one. False if the agent has too many tokens."""
    await connection.execute(SQL.lock_agent, row.agent_id)
    await connection.execute(SQL.delete_expired_tokens, row.agent_id, row.created_at - RETENTION_MS)
    inserted = await connection.fetchval(SQL.insert_token, *row[:6], MAX_TOKENS)
    return inserted is not None


async def fetch_token(connection: Connection, token_id: str) -> TokenRow | None:
    row = await connection.fetchrow(SQL.fetch_token, token_id)
    return None if row is None else TokenRow(*row)


async def list_tokens(connection: Connection, agent_id: str | None, limit: int) -> list[TokenRow]:
    """The tokens of one agent, or of all agents."""
    return [TokenRow(*row) for row in await connection.fetch(SQL.list_tokens, agent_id, limit)]


async def record_use(connection: Connection, token_id: str, now_ms: int) -> None:
    await connection.execute(SQL.record_use, token_id, now_ms)


async def revoke_tokens(connection: Connection, agent_id: str, token_id: str | None, now_ms: int) -> list[str]:
    """Revoke one token or all tokens of the agent, and return their ids."""
    rows = await connection.fetch(SQL.revoke_tokens, agent_id, token_id, now_ms)
    return [row[0] for row in rows]
