"""Which events relate to which."""

from collections.abc import Sequence

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "relations.sql")


async def insert_relations(connection: Connection, rows: Sequence[tuple[str, str, str]]) -> None:
    """Rows of the target, how an event relates to it, and that event."""
    if rows:
        await connection.execute(SQL.insert_relations, *(list(column) for column in zip(*rows, strict=True)))


async def fetch_relations(
    connection: Connection, room_id: str, target: str, rel_type: str | None, limit: int
) -> list[str]:
    """The events of that room which relate to the target, oldest first."""
    return [row[0] for row in await connection.fetch(SQL.fetch_relations, target, room_id, rel_type, limit)]
