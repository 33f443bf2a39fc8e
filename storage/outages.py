"""Servers that do not answer: since when, how often they were tried, and when they are tried again."""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "outages.sql")


class OutageRow(NamedTuple):
    """Times are milliseconds since 1970."""

    failing_since: int
    failures: int
    retry_at: int


async def write_outage(connection: Connection, destination: str, outage: OutageRow | None) -> None:
    """None: the server answers."""
    if outage is None:
        await connection.execute(SQL.delete_outage, destination)
    else:
        await connection.execute(SQL.upsert_outage, destination, *outage)


async def fetch_outage(connection: Connection, destination: str) -> OutageRow | None:
    row = await connection.fetchrow(SQL.fetch_outage, destination)
    return None if row is None else OutageRow(*row)


async def list_outages(connection: Connection) -> dict[str, OutageRow]:
    return {row[0]: OutageRow(*row[1:]) for row in map(tuple, await connection.fetch(SQL.list_outages))}
