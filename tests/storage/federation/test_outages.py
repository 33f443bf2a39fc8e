"""Servers that do not answer."""

from storage.database import Database
from storage.federation.outbox import OutageRow, fetch_outage, list_outages, write_outage


async def test_an_outage_is_remembered_until_it_is_over(database: Database) -> None:
    """A restart must not try a dead server every five seconds again."""
    async with database.transaction() as connection:
        assert await fetch_outage(connection, "b.example") is None
        await write_outage(connection, "b.example", OutageRow(1, 2, 3))
        await write_outage(connection, "b.example", OutageRow(1, 3, 9))
        await write_outage(connection, "c.example", OutageRow(5, 1, 6))
        assert await fetch_outage(connection, "b.example") == OutageRow(1, 3, 9)
        assert await list_outages(connection) == {
            "b.example": OutageRow(1, 3, 9),
            "c.example": OutageRow(5, 1, 6),
        }
        await write_outage(connection, "b.example", None)
        assert await fetch_outage(connection, "b.example") is None
