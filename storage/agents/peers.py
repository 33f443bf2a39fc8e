"""Agent peers that operators have added, and configured peers whose trust an operator has changed. There are
few, and they are read all at once."""

from collections.abc import Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.agents", "peers.sql")


class PeerRow(NamedTuple):
    """In the order of the table's columns. `profile` is None for a peer of the configuration, of which only
    `trusted` is stored. Times are milliseconds since 1970."""

    node_id: str
    trusted: bool
    profile: str | None
    url: str | None
    namespaces: Sequence[str] | None
    networks: Sequence[str] | None
    signing_key: bytes | None
    require_signature: bool | None
    authority: str | None
    added_at: int
    changed_at: int


async def list_peers(connection: Connection) -> list[PeerRow]:
    return [PeerRow(*row) for row in await connection.fetch(SQL.list_peers)]


async def lock_peers(connection: Connection) -> None:
    """Keep other transactions from changing peers until this one ends."""
    await connection.execute(SQL.lock)


async def write_peer(connection: Connection, row: PeerRow) -> None:
    """Insert or replace a peer."""
    await connection.execute(SQL.write_peer, *row)


async def delete_peer(connection: Connection, node_id: str) -> None:
    await connection.execute(SQL.delete_peer, node_id)
