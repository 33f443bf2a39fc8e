"""When offices were used last, and whose rooms are archived."""

from collections.abc import Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.offices", "rooms.sql")


class ArchivedOffice(NamedTuple):
    """`position` is that of the last thing that has happened there, `used_at_ms` its time."""

    office_id: str
    position: int
    used_at_ms: int


async def update_last_use(connection: Connection) -> None:
    """Of all offices, by what was written down of them."""
    await connection.execute(SQL.update_last_use)


async def list_unused(connection: Connection, used_before_ms: int, limit: int) -> Sequence[tuple[str, int]]:
    """Offices in which nobody is, and in which nothing has happened since then, the longest ago first; each
    with the position of its last record."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.list_unused, used_before_ms, limit)]


async def archive(connection: Connection, office_id: str, position: int, at_ms: int) -> bool:
    """Whether nothing has happened there since, so that it is archived now."""
    return await connection.fetchval(SQL.archive, office_id, position, at_ms) is not None


async def list_unannounced(connection: Connection, limit: int) -> list[ArchivedOffice]:
    """Those whose rooms do not say so yet."""
    return [ArchivedOffice(*row) for row in await connection.fetch(SQL.list_unannounced, limit)]


async def mark_announced(connection: Connection, office_id: str) -> None:
    await connection.execute(SQL.mark_announced, office_id)


async def list_archived(connection: Connection) -> list[str]:
    """Those whose rooms say so."""
    return [row[0] for row in await connection.fetch(SQL.list_archived)]


async def list_used_again(connection: Connection, limit: int) -> list[str]:
    """Archived ones into which somebody has come since."""
    return [row[0] for row in await connection.fetch(SQL.list_used_again, limit)]


async def is_used_again(connection: Connection, office_id: str) -> bool:
    found: bool = await connection.fetchval(SQL.is_used_again, office_id)
    return found


async def unarchive(connection: Connection, office_id: str, at_ms: int) -> None:
    """It is in use again, since then."""
    await connection.execute(SQL.unarchive, office_id, at_ms)


async def defer_archiving(connection: Connection, office_id: str, at_ms: int) -> None:
    """As if it had been used then."""
    await connection.execute(SQL.defer_archiving, office_id, at_ms)


async def list_offices(connection: Connection) -> list[str]:
    """All that are known to have been used."""
    return [row[0] for row in await connection.fetch(SQL.list_offices)]
