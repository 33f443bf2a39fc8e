"""Servers that do not respond."""

from storage.database import Database
from storage.federation.outbox import OutageRow, fetch_outage, list_outages, write_outage


async def test_an_outage_is_stored_until_it_ends(database: Database) -> None:
    """After a restart an offline server must not be retried every five seconds again."""
    async with database.transaction() as connection:
        assert await fetch_outage(connection, "b.example") is None
        await write_outage(connection, "b.example", OutageRow(1, 2, 3))
        await write_outage(connection, "b.example", OutageRow(1, 3, 9))
        await write_outage(connection, "c.example", OutageRow(5, 1, 6))
        assert await fetch_outage(connection, "b.example") == OutageRow(1, 3, 9)
        assert await list_outages(connection) == {"b.example": OutageRow(1, 3, 9), "c.example": OutageRow(5, 1, 6)}
        await write_outage(connection, "b.example", None)
        assert await fetch_outage(connection, "b.example") is None
