"""Reading the durable stream, whatever is in it. What is in that of a homeserver is tested in
`test_room_stream.py`, what is in that of an appservice in `tests/appservice/intake/test_stream.py`."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from federation.events.room_event import RoomEvent, StreamedEvent
from federation.stream import event_stream as module
from federation.stream.event_stream import EventStream, Read
from storage.database import Database
from storage.rooms import stream as consumers
from storage.rooms.stream import ReaderReplaced

TIMEOUT = 60.0


def number(position: int, type_: str = "m.room.message") -> StreamedEvent:
    event = RoomEvent(f"${position}", "!room:here", "@a:here", type_, {}, 0)
    return StreamedEvent(position, "timeline", event)


class Numbers(EventStream):
    """`written` is what the database would have; `looks` counts how often it was asked."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.written: list[StreamedEvent] = []
        self.looks = 0

    def commit(self, *added: StreamedEvent, elsewhere: bool = False) -> None:
        self.written = sorted([*self.written, *added], key=lambda one: one.position)
        if not elsewhere:
            self.publish(added)

    async def read(self, after: int, limit: int = 100) -> Read:
        self.looks += 1
        found = [one for one in self.written if one.position > after][:limit]
        return Read(found, found[-1].position if found else after, len(found) < limit)


def positions(found: Sequence[StreamedEvent]) -> list[int]:
    return [one.position for one in found]


async def settled() -> None:
    """Whoever can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_is_committed_here_is_read_from_memory(database: Database) -> None:
    """By all readers, without asking the database, also where it was committed in another order."""
    stream = Numbers(database)
    readers = [stream.reader(0) for _ in range(3)]
    async with asyncio.timeout(TIMEOUT):
        waiting = [asyncio.create_task(reader.next()) for reader in readers]
        await settled()
        looks = stream.looks
        stream.commit(number(1), number(2))
        assert [positions(await one) for one in waiting] == [[1, 2]] * 3
        waiting = [asyncio.create_task(reader.next()) for reader in readers]
        await settled()
        assert stream.looks == looks
        stream.publish([number(4)])
        await settled()
        assert not any(one.done() for one in waiting)
        stream.commit(number(3), number(4))
        assert [positions(await one) for one in waiting] == [[3, 4]] * 3
    await stream.close()


async def test_behind_a_gap_the_database_is_asked(database: Database) -> None:
    """Once for all readers that are at the same position."""
    stream = Numbers(database)
    readers = [stream.reader(0) for _ in range(3)]
    async with asyncio.timeout(TIMEOUT):
        waiting = [asyncio.create_task(reader.next()) for reader in readers]
        await settled()
        looks = stream.looks
        stream.commit(number(1), elsewhere=True)
        stream.commit(number(2))
        assert [positions(await one) for one in waiting] == [[1, 2]] * 3
        assert stream.looks == looks + 1
    await stream.close()


@pytest.mark.parametrize("redaction", [True, False])
async def test_what_a_redaction_may_ask_for_is_not_read_from_memory(
    database: Database, redaction: bool
) -> None:
    """Neither is anything when it is not known what was committed."""
    stream = Numbers(database)
    stream.commit(number(1), number(2))
    if redaction:
        stream.commit(number(3, "m.room.redaction"))
    else:
        stream.publish()
    async with asyncio.timeout(TIMEOUT):
        assert positions(await stream.reader(0).next())[:2] == [1, 2]
        assert stream.looks == 1
    await stream.close()


async def test_memory_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is behind it reads from the database."""
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    stream = Numbers(database)
    reader = stream.reader(0)
    async with asyncio.timeout(TIMEOUT):
        waiting = asyncio.create_task(reader.next())
        await settled()
        looks = stream.looks
        stream.commit(*map(number, range(1, 6)))
        assert positions(await waiting) == [1, 2, 3, 4, 5]
        assert stream.looks == looks + 1
    await stream.close()


async def test_a_reader_is_given_what_it_wants(database: Database) -> None:
    """After a number of others, it is given nothing. A mistake in what it wants is its own."""
    stream = Numbers(database)

    def mistaken(event: RoomEvent) -> bool:
        raise KeyError

    async with asyncio.timeout(TIMEOUT):
        passing = stream.reader(0, lambda event: event.type == "wanted")
        passed = asyncio.create_task(passing.next(10, most_passed=2))
        wrong = asyncio.create_task(stream.reader(0, mistaken).next())
        limited = asyncio.create_task(stream.reader(0).next(1))
        await settled()
        stream.commit(number(1), number(2), number(3))
        assert (positions(await passed), passing.position) == ([], 3)
        assert positions(await limited) == [1]
        with pytest.raises(KeyError):
            await wrong
    await stream.close()


async def test_a_reader_looks_by_itself(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notifications may be lost."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.CHECK_INTERVAL", 0.01)
    stream = Numbers(database)
    stream.start()
    waiting = asyncio.create_task(stream.reader(0).next())
    await settled()
    stream.commit(number(1), elsewhere=True)
    async with asyncio.timeout(TIMEOUT):
        assert positions(await waiting) == [1]
    await stream.close()


async def test_nothing_has_been_read_before_the_cursor_says_so(database: Database) -> None:
    """What was rolled back is read again."""
    stream = Numbers(database)
    stream.commit(number(1), number(2))
    async with asyncio.timeout(TIMEOUT), stream.subscription("a") as reading:
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
    async with asyncio.timeout(TIMEOUT), stream.subscription("a") as reading:
        await reading.next()
        async with database.autocommit() as connection:
            await reading.advance(connection, 1)
        async with database.transaction() as connection:
            await consumers.begin_term(connection, "a", 0)
        assert positions(await reading.next()) == [2]
        with pytest.raises(ReaderReplaced):
            async with database.autocommit() as connection:
                await reading.advance(connection, 2)
        monkeypatch.setattr(module, "CONFIRMED", 0.0)
        with pytest.raises(ReaderReplaced):
            await reading.next()
    await stream.close()


async def test_the_cursor_follows_what_is_passed_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then, so that a successor need not look at all of it again."""
    monkeypatch.setattr(module, "MOST_PASSED", 2)
    stream = Numbers(database)
    stream.commit(*map(number, range(1, 6)), number(6, "wanted"))
    async with (
        asyncio.timeout(TIMEOUT),
        stream.subscription("a", wanted=lambda event: event.type == "wanted") as reading,
    ):
        assert positions(await reading.next(2)) == [6]
    assert (await database.read(consumers.list_cursors))["a"] >= 2
    await stream.close()
