"""The order of the stream."""

from storage.database import Database
from storage.rooms.stream import StreamRow, append, fetch_last_position, read


async def test_entries_are_read_in_the_order_in_which_they_were_written(database: Database) -> None:
    """After a position, at most `limit`. Before the first entry the position is 0."""
    async with database.connection() as connection:
        assert await fetch_last_position(connection) == 0
    async with database.transaction() as connection:
        given = await append(connection, [("!r", "$b", "timeline"), ("!r", "$a", "state"), ("!r", "$c", "unset")])
        assert await append(connection, []) == []
    async with database.connection() as connection:
        rows = await read(connection, 0, 2)
        assert rows == [StreamRow(given[0], "!r", "$b", "timeline"), StreamRow(given[1], "!r", "$a", "state")]
        assert [row.event_id for row in await read(connection, rows[-1].position, 10)] == ["$c"]
        assert await fetch_last_position(connection) == given[-1]


async def test_a_reader_stops_before_uncommitted_positions(database: Database) -> None:
    """Otherwise it would skip them forever. Other writers are not blocked."""
    async with database.connection() as reader:
        async with database.transaction() as slow:
            first = await append(slow, [("!r", "$first", "timeline")])
            async with database.transaction() as quick:
                second = await append(quick, [("!r", "$second", "timeline")])
            assert first < second
            assert [row.event_id for row in await read(reader, 0, 10)] == []
            assert await fetch_last_position(reader) < first[0]
        assert [row.event_id for row in await read(reader, 0, 10)] == ["$first", "$second"]


async def test_a_rolled_back_writer_does_not_hold_readers_back(database: Database) -> None:
    """Its positions are never used, and later entries are read."""
    try:
        async with database.transaction() as connection:
            await append(connection, [("!r", "$lost", "timeline")])
            raise KeyError
    except KeyError:
        pass
    async with database.transaction() as connection:
        await append(connection, [("!r", "$kept", "timeline")])
    async with database.connection() as reader:
        assert [row.event_id for row in await read(reader, 0, 10)] == ["$kept"]
