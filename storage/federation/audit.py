"""The audit log of requests between servers. The caller decides what is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import orjson

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "audit.sql")


class AuditRow(NamedTuple):
    """In the order of the table's columns. `peer` is None for an unauthenticated requester."""

    at: datetime
    peer: str | None
    direction: str
    act: str
    user_id: str | None
    room_id: str | None
    subject: str | None
    outcome: str
    detail: str | None


@dataclass(frozen=True, slots=True)
class AuditSearch:
    """A filter that is None matches all."""

    peer: str | None = None
    user_id: str | None = None
    room_id: str | None = None
    since: datetime | None = None


async def insert_entries(connection: Connection, rows: Sequence[AuditRow]) -> None:
    if rows:
        # orjson serialises tuples, but no named tuples.
        await connection.execute(SQL.insert_entries, orjson.dumps([tuple(row) for row in rows]).decode())


async def search(connection: Connection, filters: AuditSearch, limit: int) -> list[AuditRow]:
    """The matching entries, newest first."""
    rows = await connection.fetch(SQL.search, filters.peer, filters.user_id, filters.room_id, filters.since, limit)
    return [AuditRow(*row) for row in rows]


async def prune(connection: Connection, before: datetime, limit: int) -> int:
    """Delete up to `limit` older rows, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune, before, limit)
    return deleted
