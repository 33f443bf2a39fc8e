"""Reading the durable stream. The entries of a homeserver's stream are tested in
`tests/federation/rooms/test_stream.py`, those of an appservice's in
`tests/appservice/intake/test_stream.py`."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from federation.events.room_event import RoomEvent, StreamedEvent
from federation.stream import event_stream as module
from federation.stream.event_stream import EventStream, StreamPage
from storage.database import Database
from storage.rooms import stream as consumers
from storage.rooms.stream import ReaderReplaced

TIMEOUT = 60.0


def entry(position: int, type_: str = "m.room.message") -> StreamedEvent:
    event = RoomEvent(f"${position}", "!room:here", "@a:here", type_, {}, 0)
    return StreamedEvent(position, "timeline", event)


class CountingStream(EventStream):
    """`stored` stands for the database; `reads` counts how often it was read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.stored: list[StreamedEvent] = []
        self.reads = 0

    def commit(self, *added: StreamedEvent, by_other_process: bool = False) -> None:
        self.stored = sorted([*self.stored, *added], key=lambda one: one.position)
        if not by_other_process:
            self.publish(added)

    async def read(self, after: int, limit: int = 100) -> StreamPage:
        self.reads += 1
        found = [one for one in self.stored if one.position > after][:limit]
        return StreamPage(found, found[-1].position if found else after, len(found) < limit)


def positions(found: Sequence[StreamedEvent]) -> list[int]:
    return [one.position for one in found]


async def run_ready_tasks() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_entries_of_this_process_are_read_from_the_cache(database: Database) -> None:
    """All readers get them without reading the database, also if they were committed out of order."""
    stream = CountingStream(database)
    readers = [stream.reader(0) for _ in range(3)]
    async with asyncio.timeout(TIMEOUT):
        waiting = [asyncio.create_task(reader.next()) for reader in readers]
        await run_ready_tasks()
        reads = stream.reads
        stream.commit(entry(1), entry(2))
        assert [positions(await one) for one in waiting] == [[1, 2]] * 3
        waiting = [asyncio.create_task(reader.next()) for reader in readers]
        await run_ready_tasks()
        assert stream.reads == reads
        stream.publish([entry(4)])
        await run_ready_tasks()
        assert not any(one.done() for one in waiting)
        stream.commit(entry(3), entry(4))
        assert [positions(await one) for one in waiting] == [[3, 4]] * 3
    await stream.close()


async def test_behind_a_gap_the_database_is_read(database: Database) -> None:
    """Readers at the same position share one read."""
    stream = CountingStream(database)
    readers = [stream.reader(0) for _ in range(3)]
    async with asyncio.timeout(TIMEOUT):
        waiting = [asyncio.create_task(reader.next()) for reader in readers]
        await run_ready_tasks()
        reads = stream.reads
        stream.commit(entry(1), by_other_process=True)
        stream.commit(entry(2))
        assert [positions(await one) for one in waiting] == [[1, 2]] * 3
        assert stream.reads == reads + 1
    await stream.close()


@pytest.mark.parametrize("redaction", [True, False])
async def test_a_redaction_clears_the_cache(database: Database, redaction: bool) -> None:
    """A commit of unknown entries clears it too."""
    stream = CountingStream(database)
    stream.commit(entry(1), entry(2))
    if redaction:
        stream.commit(entry(3, "m.room.redaction"))
    else:
        stream.publish()
    async with asyncio.timeout(TIMEOUT):
        assert positions(await stream.reader(0).next())[:2] == [1, 2]
        assert stream.reads == 1
    await stream.close()


async def test_the_cache_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader at an earlier position reads the database."""
    monkeypatch.setattr(module, "MAX_CACHED", 3)
    stream = CountingStream(database)
    reader = stream.reader(0)
    async with asyncio.timeout(TIMEOUT):
        waiting = asyncio.create_task(reader.next())
        await run_ready_tasks()
        reads = stream.reads
        stream.commit(*map(entry, range(1, 6)))
        assert positions(await waiting) == [1, 2, 3, 4, 5]
        assert stream.reads == reads + 1
    await stream.close()


async def test_a_reader_gets_only_wanted_events(database: Database) -> None:
    """After `max_skipped` others it returns none. An exception of `wanted` is raised in that reader only."""
    stream = CountingStream(database)

    def mistaken(event: RoomEvent) -> bool:
        raise KeyError

    async with asyncio.timeout(TIMEOUT):
        skipping = stream.reader(0, lambda event: event.type == "wanted")
        skipped = asyncio.create_task(skipping.next(10, max_skipped=2))
        wrong = asyncio.create_task(stream.reader(0, mistaken).next())
        limited = asyncio.create_task(stream.reader(0).next(1))
        await run_ready_tasks()
        stream.commit(entry(1), entry(2), entry(3))
        assert (positions(await skipped), skipping.position) == ([], 3)
        assert positions(await limited) == [1]
        with pytest.raises(KeyError):
            await wrong
    await stream.close()


async def test_a_reader_polls(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader finds entries without a notification, since notifications may be lost."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.CHECK_INTERVAL", 0.01)
    stream = CountingStream(database)
    stream.start()
    waiting = asyncio.create_task(stream.reader(0).next())
    await run_ready_tasks()
    stream.commit(entry(1), by_other_process=True)
    async with asyncio.timeout(TIMEOUT):
        assert positions(await waiting) == [1]
    await stream.close()


async def test_entries_are_read_again_until_the_cursor_is_advanced(database: Database) -> None:
    """A rolled back `advance` does not move the cursor."""
    stream = CountingStream(database)
    stream.commit(entry(1), entry(2))
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


async def test_the_cursor_is_read_from_the_database_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a commit the reader is not checked again for a while. Its commits are refused after a
    takeover."""
    stream = CountingStream(database)
    stream.commit(entry(1), entry(2))
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
        monkeypatch.setattr(module, "CONFIRMED_FOR", 0.0)
        with pytest.raises(ReaderReplaced):
            await reading.next()
    await stream.close()


async def test_the_cursor_follows_skipped_entries(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is advanced after every MAX_SKIPPED entries, so that the next process need not read all of them
    again."""
    monkeypatch.setattr(module, "MAX_SKIPPED", 2)
    stream = CountingStream(database)
    stream.commit(*map(entry, range(1, 6)), entry(6, "wanted"))
    async with (
        asyncio.timeout(TIMEOUT),
        stream.subscription("a", wanted=lambda event: event.type == "wanted") as reading,
    ):
        assert positions(await reading.next(2)) == [6]
    assert (await database.read(consumers.list_cursors))["a"] >= 2
    await stream.close()
