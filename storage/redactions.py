"""Which redactions ask for which events."""

from collections.abc import Iterable, Sequence

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "redactions.sql")


async def insert_redactions(connection: Connection, pairs: Sequence[tuple[str, str]]) -> None:
    """Pairs of the event that is to be redacted and the redaction that asks for it."""
    if pairs:
        await connection.execute(
            SQL.insert_redactions, *(list(column) for column in zip(*pairs, strict=True))
        )


async def fetch_redactions(connection: Connection, targets: Iterable[str]) -> list[tuple[str, str]]:
    """(target, redaction) for each redaction that asks for one of these events."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.fetch_redactions, list(targets))]
