"""The last use of each office, and the archiving of their rooms."""

from collections.abc import Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.offices", "rooms.sql")


class ArchivedOffice(NamedTuple):
    """`position` and `used_at_ms` are those of the office's last record."""

    office_id: str
    position: int
    used_at_ms: int


async def update_last_use(connection: Connection) -> None:
    """Update the last use of all offices from their records."""
    await connection.execute(SQL.update_last_use)


async def list_unused(connection: Connection, used_before_ms: int, limit: int) -> Sequence[tuple[str, int]]:
    """(office id, position of its last record) of the offices without present members and without records
    since that time, least recently used first."""
    return [(row[0], row[1]) for row in await connection.fetch(SQL.list_unused, used_before_ms, limit)]


async def archive(connection: Connection, office_id: str, position: int, at_ms: int) -> bool:
    """Mark the office as archived. False if it has records after `position`."""
    return await connection.fetchval(SQL.archive, office_id, position, at_ms) is not None


async def list_unannounced(connection: Connection, limit: int) -> list[ArchivedOffice]:
    """The archived offices whose rooms do not show it yet."""
    return [ArchivedOffice(*row) for row in await connection.fetch(SQL.list_unannounced, limit)]


async def mark_announced(connection: Connection, office_id: str) -> None:
    await connection.execute(SQL.mark_announced, office_id)


async def list_archived(connection: Connection) -> list[str]:
    """The archived offices whose rooms show it."""
    return [row[0] for row in await connection.fetch(SQL.list_archived)]


async def list_used_again(connection: Connection, limit: int) -> list[str]:
    """The archived offices that a member has joined since."""
    return [row[0] for row in await connection.fetch(SQL.list_used_again, limit)]


async def is_used_again(connection: Connection, office_id: str) -> bool:
    found: bool = await connection.fetchval(SQL.is_used_again, office_id)
    return found


async def unarchive(connection: Connection, office_id: str, at_ms: int) -> None:
    """Mark the office as in use since `at_ms`."""
    await connection.execute(SQL.unarchive, office_id, at_ms)


async def defer_archiving(connection: Connection, office_id: str, at_ms: int) -> None:
    """Set the time of the last use, so that the office is archived later."""
    await connection.execute(SQL.defer_archiving, office_id, at_ms)


async def list_offices(connection: Connection) -> list[str]:
    """All offices that have been used."""
    return [row[0] for row in await connection.fetch(SQL.list_offices)]
