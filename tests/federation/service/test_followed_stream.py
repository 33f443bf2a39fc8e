"""Following a stream, whatever is in it. What is in that of a homeserver is tested in `test_room_stream.py`,
what is in that of a guest in `tests/appservice/service/test_stream.py`."""

import asyncio

import pytest

from federation.room_event import everything
from storage.database import Database
from tests.federation.service.numbers import Numbers, number, positions

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless somebody says that there is something."""
    monkeypatch.setattr(Numbers, "LONGEST_WAIT", 3_600.0)


async def test_what_is_committed_here_is_read_from_memory(database: Database) -> None:
    """By all who wait, without asking the database; behind a gap it is asked, once for all of them."""
    stream = Numbers(database)
    async with asyncio.timeout(PATIENCE):
        readers = [asyncio.create_task(stream.next(0)) for _ in range(3)]
        await asyncio.sleep(0)
        while stream.looks == 0:
            await asyncio.sleep(0)
        looks = stream.looks
        stream.commit(number(1), number(2))
        assert [positions(await one) for one in readers] == [[1, 2]] * 3
        assert stream.looks == looks

        readers = [asyncio.create_task(stream.next(2)) for _ in range(3)]
        await asyncio.sleep(0)
        stream.commit(number(3), elsewhere=True)
        stream.commit(number(4))
        assert [positions(await one) for one in readers] == [[3, 4]] * 3
        assert stream.looks == looks + 1
    await stream.close()


async def test_what_is_looked_up_is_not_read_from_memory(database: Database) -> None:
    """Neither is anything that came before it: the database knows what has become of that."""
    stream = Numbers(database)
    stream.commit(number(1), number(2, "m.room.redaction"), elsewhere=True)
    async with asyncio.timeout(PATIENCE):
        assert positions((await stream.read_on(0)).entries) == [1, 2]
        looks = stream.looks
        assert positions((await stream.read_on(0)).entries) == [1, 2]
        assert stream.looks == looks + 1
        assert positions((await stream.read_on(2)).entries) == []
    await stream.close()


async def test_a_reader_is_told_what_it_wants(database: Database) -> None:
    """Of what it does not want it is told, now and then, how far that is; a mistake in what it asks for is
    its own."""
    stream = Numbers(database)

    def mistaken(event: object) -> bool:
        raise KeyError

    async with asyncio.timeout(PATIENCE):
        passing = asyncio.create_task(stream.follow(0, 10, lambda event: event.type == "wanted", 2))
        wrong = asyncio.create_task(stream.follow(0, 10, mistaken, 10))
        limited = asyncio.create_task(stream.follow(0, 1, everything, 10))
        while stream.looks == 0:
            await asyncio.sleep(0)
        stream.commit(number(1), number(2), number(3))
        read = await passing
        assert (positions(read.entries), read.upto) == ([], 3)
        assert positions((await limited).entries) == [1]
        with pytest.raises(KeyError):
            await wrong
    await stream.close()
