"""The audit: what servers did to each other. What is written into it is decided by whoever writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import orjson

from storage.database import Connection
from storage.statements import load

SQL = load("storage.federation", "audit.sql")


class AuditRow(NamedTuple):
    """In the order of the table's columns. `peer` is None for whoever has not shown who he is."""

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
    """What is None is not looked at."""

    peer: str | None = None
    user_id: str | None = None
    room_id: str | None = None
    since: datetime | None = None


async def insert_entries(connection: Connection, rows: Sequence[AuditRow]) -> None:
    if rows:
        # orjson writes tuples, but none that has names.
        await connection.execute(SQL.insert_entries, orjson.dumps([tuple(row) for row in rows]).decode())


async def search(connection: Connection, wanted: AuditSearch, limit: int) -> list[AuditRow]:
    """The newest first."""
    rows = await connection.fetch(
        SQL.search, wanted.peer, wanted.user_id, wanted.room_id, wanted.since, limit
    )
    return [AuditRow(*row) for row in rows]


async def prune(connection: Connection, before: datetime, limit: int) -> int:
    """Forget up to `limit` rows that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune, before, limit)
    return forgotten
