"""The positions of the stream's readers, and which process is the reader."""

import pytest

from storage.database import Database
from storage.rooms.stream import ReaderReplaced, advance, begin_term, fetch_position, list_cursors


async def test_a_reader_continues_at_its_position(database: Database) -> None:
    """A new reader starts at `beginning`. A position never decreases."""
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


async def test_a_replaced_reader_commits_nothing(database: Database) -> None:
    """Its session may have ended without its noticing."""
    async with database.transaction() as connection:
        old = await begin_term(connection, "cis", 0)
        new = await begin_term(connection, "cis", 0)
        with pytest.raises(ReaderReplaced):
            await fetch_position(connection, "cis", old)
        with pytest.raises(ReaderReplaced):
            await advance(connection, "cis", old, 1)
        await advance(connection, "cis", new, 1)
