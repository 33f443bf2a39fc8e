"""How far each reader of the stream has come, and which process is the reader."""

import pytest

from storage.database import Database
from storage.rooms.stream import ReaderReplaced, advance, begin_term, fetch_position, list_cursors


async def test_a_reader_begins_where_it_was(database: Database) -> None:
    """The beginning counts for whoever has never read. A cursor never goes back."""
    async with database.transaction() as connection:
        term = await begin_term(connection, "cis", 7)
        assert await fetch_position(connection, "cis", term) == 7
        await advance(connection, "cis", term, 9)
        again = await begin_term(connection, "cis", 0)
        assert await fetch_position(connection, "cis", again) == 9
        await advance(connection, "cis", again, 9)
        await begin_term(connection, "awcp", 0)
        assert await list_cursors(connection) == {"awcp": 0, "cis": 9}
    with pytest.raises(ReaderReplaced):
        async with database.transaction() as connection:
            await advance(connection, "cis", again, 8)


async def test_who_was_taken_over_commits_nothing_any_more(database: Database) -> None:
    """Its session may have ended without its knowing."""
    async with database.transaction() as connection:
        old = await begin_term(connection, "cis", 0)
        new = await begin_term(connection, "cis", 0)
        with pytest.raises(ReaderReplaced):
            await fetch_position(connection, "cis", old)
        with pytest.raises(ReaderReplaced):
            await advance(connection, "cis", old, 1)
        await advance(connection, "cis", new, 1)
