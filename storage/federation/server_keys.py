"""The signing keys of other servers. The caller verifies them and decides which key replaces which."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "server_keys.sql")

# "KEYS": the namespace of these advisory locks.
LOCK: Final = 0x4B455953


@dataclass(frozen=True, slots=True)
class ServerKeyRow:
    """Times are milliseconds since 1970."""

    server_name: str
    key_id: str
    public_key: bytes
    valid_until_ts: int
    expired_ts: int | None
    fetched_at: int
    source: str


async def lock_server(connection: Connection, server_name: str) -> None:
    """Keep other transactions from changing the keys of this server until this one ends."""
    await connection.execute(SQL.lock_server, LOCK, server_name)


async def fetch_keys(connection: Connection, server_names: Collection[str]) -> list[ServerKeyRow]:
    return [ServerKeyRow(**row) for row in await connection.fetch(SQL.fetch_keys, list(server_names))]


async def fetch_documents(connection: Connection, server_name: str, key_ids: Collection[str]) -> list[bytes]:
    """The distinct documents that published these keys."""
    rows = await connection.fetch(SQL.fetch_documents, server_name, list(key_ids))
    return [row["document"] for row in rows]


async def store_keys(connection: Connection, rows: Sequence[ServerKeyRow], document: bytes) -> None:
    """Insert or replace the keys that one document has published."""
    await connection.execute(
        SQL.store_keys,
        [row.server_name for row in rows],
        [row.key_id for row in rows],
        [row.public_key for row in rows],
        [row.valid_until_ts for row in rows],
        [row.expired_ts for row in rows],
        [row.fetched_at for row in rows],
        [row.source for row in rows],
        document,
    )
