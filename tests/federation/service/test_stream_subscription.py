"""A cursor in a stream, whatever is in it."""

import asyncio
import contextlib

import pytest

from federation.room_event import EventHead
from federation.service import stream_subscription as module
from storage import consumers
from storage.consumers import TakenOver
from storage.database import Database
from tests.federation.service.numbers import Numbers, Reading, number, positions

PATIENCE = 60.0


async def taken_over(database: Database) -> int:
    async with database.transaction() as connection:
        return await consumers.take_over(connection, "a", 0)


async def test_nothing_has_been_read_before_the_cursor_says_so(database: Database) -> None:
    """What was rolled back is read again."""
    stream = Numbers(database)
    stream.commit(number(1), number(2))
    reading = Reading("a", await taken_over(database), database, stream)
    async with asyncio.timeout(PATIENCE):
        assert positions(await reading.next()) == [1, 2]
        with contextlib.suppress(KeyError):
            async with database.transaction() as connection:
                await reading.advance(connection, 2)
                raise KeyError
        assert positions(await reading.next(1)) == [1]
        async with database.transaction() as connection:
            await reading.advance(connection, 1)
        assert positions(await reading.next()) == [2]
    await stream.close()


async def test_the_database_is_asked_for_the_cursor_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has just committed is still the reader, and another one's commit is refused."""
    stream = Numbers(database)
    stream.commit(number(1), number(2))
    reading = Reading("a", await taken_over(database), database, stream)
    async with asyncio.timeout(PATIENCE):
        await reading.next()
        async with database.statements() as connection:
            await reading.advance(connection, 1)
        await taken_over(database)
        assert positions(await reading.next()) == [2]
        with pytest.raises(TakenOver):
            async with database.statements() as connection:
                await reading.advance(connection, 2)
        monkeypatch.setattr(module, "CONFIRMED", 0.0)
        with pytest.raises(TakenOver):
            await reading.next()
    await stream.close()


async def test_the_cursor_follows_what_is_passed_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then, so that nobody has to look at all of it again."""
    monkeypatch.setattr(module, "MOST_PASSED", 2)

    def wanted(event: EventHead) -> bool:
        return event.type == "wanted"

    stream = Numbers(database)
    stream.commit(*map(number, range(1, 6)), number(6, "wanted"))
    reading = Reading("a", await taken_over(database), database, stream, wanted)
    async with asyncio.timeout(PATIENCE):
        # As few at a time as readers of a long stream get.
        assert positions(await reading.next(2)) == [6]
    assert (await database.look(consumers.list_cursors))["a"] >= 2
    await stream.close()
