"""Redactions by their target."""

from storage.database import Database
from storage.rooms.events import fetch_redactions, insert_redactions


async def test_redactions_are_found_by_their_target(database: Database) -> None:
    """An event may have several, and one may be written twice."""
    async with database.transaction() as connection:
        await insert_redactions(connection, [("$a", "$r"), ("$a", "$s"), ("$b", "$t")])
        await insert_redactions(connection, [("$a", "$r")])
        await insert_redactions(connection, [])
        assert await fetch_redactions(connection, ["$a", "$c"]) == [("$a", "$r"), ("$a", "$s")]
