"""How far each reader of the stream has come, and which process is the reader."""

import pytest

from storage.consumers import (
    TakenOver,
    advance,
    fetch_position,
    list_cursors,
    take_over,
    try_lock_consumer,
    unlock_consumer,
)
from storage.database import Database


async def test_a_reader_begins_where_it_was(database: Database) -> None:
    """The beginning counts for whoever has never read. A cursor never goes back."""
    async with database.transaction() as connection:
        term = await take_over(connection, "cis", 7)
        assert await fetch_position(connection, "cis", term) == 7
        await advance(connection, "cis", term, 9)
        again = await take_over(connection, "cis", 0)
        assert await fetch_position(connection, "cis", again) == 9
        await advance(connection, "cis", again, 9)
        await take_over(connection, "awcp", 0)
        assert await list_cursors(connection) == {"awcp": 0, "cis": 9}
    with pytest.raises(TakenOver):
        async with database.transaction() as connection:
            await advance(connection, "cis", again, 8)


async def test_who_was_taken_over_commits_nothing_any_more(database: Database) -> None:
    """Its session may have ended without its knowing."""
    async with database.transaction() as connection:
        old = await take_over(connection, "cis", 0)
        new = await take_over(connection, "cis", 0)
        with pytest.raises(TakenOver):
            await fetch_position(connection, "cis", old)
        with pytest.raises(TakenOver):
            await advance(connection, "cis", old, 1)
        await advance(connection, "cis", new, 1)


async def test_one_session_at_a_time_reads_under_a_name(database: Database) -> None:
    """Others read under theirs meanwhile."""
    async with database.connection() as one, database.connection() as other:
        assert await try_lock_consumer(one, "cis")
        assert not await try_lock_consumer(other, "cis")
        assert await try_lock_consumer(other, "awcp")
        await unlock_consumer(one, "cis")
        assert await try_lock_consumer(other, "cis")
