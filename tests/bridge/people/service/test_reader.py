"""Reads what happens in rooms, and goes on where it was."""

import asyncio
from collections.abc import Sequence

from bridge.people.service.reader import Reader
from federation.room_event import StreamedEvent
from storage.database import Database
from tests.federation.service.living.homes import inhabited


async def test_it_goes_on_where_it_was(database: Database) -> None:
    """What was not handled to the end is given again; what was said before it ever read is not given."""
    problems: list[str] = []
    given: asyncio.Queue[str] = asyncio.Queue()
    fail = True

    async def handle(entries: Sequence[StreamedEvent]) -> None:
        for entry in entries:
            body = entry.event.content.get("body")
            if body is not None:
                given.put_nowait(str(body))
            if body == "two" and fail:
                raise KeyError("two")

    async with inhabited("here", database) as home:
        worker = await home.user("worker")
        room_id = await home.room(worker)
        await home.say(room_id, worker, "before")
        reader = Reader(
            home.rooms, database, "test", handle, lambda sentence, error: problems.append(sentence)
        )
        reader.start()
        while await home.rooms.lags() == {}:
            await asyncio.sleep(0.01)
        await home.say(room_id, worker, "one")
        assert await given.get() == "one"
        await home.say(room_id, worker, "two")
        assert [await given.get(), await given.get()] == ["two", "two"]
        fail = False
        while (await home.rooms.lags())["test"] != 0:
            await asyncio.sleep(0.01)
        assert {given.get_nowait() for _ in range(given.qsize())} <= {"two"}
        assert problems[0] == "What is said in rooms is not heard by test."
        await reader.close()
        await home.say(room_id, worker, "three")
        reader = Reader(home.rooms, database, "test", handle, lambda sentence, error: None)
        reader.start()
        while (body := await given.get()) == "two":
            pass
        assert body == "three"
        await reader.close()
