"""Events whose handling may wait for other servers."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from bridge.people.service import event_inbox as module
from bridge.people.service.event_inbox import EventInbox
from federation.events.room_event import RoomEvent, StreamedEvent
from storage.connect import DatabaseAddress
from storage.database import Database, connect_once
from storage.inbox import SetAsideEntry, list_set_aside
from storage.rooms.stream import begin_term
from tests.federation.local_users.homes import Home, home_on, homeserver_without_port

TIMEOUT = 60.0
READER = "test"


def is_message(event: RoomEvent) -> bool:
    return event.type == "m.room.message"


@dataclass
class Handler:
    """What was handled. A body that begins with "wait" waits, one that begins with "fail" fails."""

    handled: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, entry: StreamedEvent) -> None:
        body = str(entry.event.content["body"])
        self.begun.append(body)
        self._changed.set()
        if body.startswith("wait"):
            await self.go_on.wait()
        if body.startswith("fail"):
            raise ValueError(f"{body}\0\ud800")
        self.handled.append(body)
        self._changed.set()

    def report(self, sentence: str, error: BaseException | None) -> None:
        self.problems.append(sentence)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def reads(self, home: Home) -> EventInbox:
        return EventInbox(home.rooms, home.database, READER, self.handle, self.report, wanted=is_message)


@contextlib.asynccontextmanager
async def reading(handler: Handler, home: Home) -> AsyncIterator[None]:
    inbox = handler.reads(home)
    inbox.start()
    try:
        yield
    finally:
        await inbox.close()


async def until_reading(home: Home) -> None:
    """Wait until the reader has started, so that it receives later events."""
    async with asyncio.timeout(TIMEOUT):
        while await home.rooms.lags() == {}:
            await asyncio.sleep(0.01)


async def set_aside_of(database: Database) -> list[SetAsideEntry]:
    return await database.read(lambda connection: list_set_aside(connection, 10))


async def waiting_in(database: Database) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM inbox WHERE set_aside_at IS NULL"))


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_DELAY", 0.01)


async def test_rooms_do_not_wait_for_each_other(database: Database) -> None:
    """The events of a room are handled in their order."""
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        rooms = [await home.room(alice) for _ in range(4)]
        async with reading(handler, home):
            await until_reading(home)
            for number, room_id in enumerate(rooms[:3]):
                await home.say(room_id, alice, f"wait {number}")
                await home.say(room_id, alice, f"after {number}")
            await home.say(rooms[3], alice, "at once")
            await handler.until(lambda: "at once" in handler.handled and len(handler.begun) == 4)
            assert handler.handled == ["at once"]
            handler.go_on.set()
            await handler.until(lambda: len(handler.handled) == 7)
        for number in range(3):
            order = [body for body in handler.handled if body.endswith(str(number))]
            assert order == [f"wait {number}", f"after {number}"]
    assert handler.problems == []


async def test_a_reader_can_define_its_queues(database: Database) -> None:
    """Events without a queue are skipped."""
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice, bob, eve = [await home.user(name) for name in ("alice", "bob", "eve")]
        room_id = await home.room(alice)
        for user in (bob, eve):
            await home.rooms.join(room_id, user)

        def queue_of(entry: StreamedEvent) -> str | None:
            return None if entry.event.sender == eve else entry.event.sender

        inbox = EventInbox(
            home.rooms, database, READER, handler.handle, handler.report, wanted=is_message, queue_of=queue_of
        )
        inbox.start()
        await until_reading(home)
        await home.say(room_id, alice, "wait")
        await home.say(room_id, alice, "after")
        await home.say(room_id, eve, "nothing")
        await home.say(room_id, bob, "at once")
        await handler.until(lambda: handler.handled == ["at once"] and "wait" in handler.begun)
        handler.go_on.set()
        await handler.until(lambda: len(handler.handled) == 3)
        await inbox.close()
    assert handler.handled == ["at once", "wait", "after"]


async def test_it_continues_after_a_restart(database: Database) -> None:
    """Unfinished events are handled again. Events before the first start are not handled."""
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        await home.say(room_id, alice, "before")
        async with reading(handler, home):
            await until_reading(home)
            await home.say(room_id, alice, "one")
            await home.say(room_id, alice, "wait")
            await home.say(room_id, alice, "three")
            await handler.until(lambda: "wait" in handler.begun)
        assert handler.handled == ["one"]
        handler.go_on.set()
        async with reading(handler, home):
            await handler.until(lambda: "three" in handler.handled)
        assert handler.handled == ["one", "wait", "three"]
        assert await waiting_in(database) == 0
    assert handler.problems == []


async def test_an_event_that_fails_repeatedly_is_set_aside(database: Database) -> None:
    """Later events of its room wait until then. Its content is not stored."""
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        async with reading(handler, home):
            await until_reading(home)
            failed = await home.say(room_id, alice, "fail")
            await home.say(room_id, alice, "after")
            await handler.until(lambda: handler.handled == ["after"])
            assert handler.begun == ["fail"] * module.MAX_ATTEMPTS + ["after"]
        [entry] = await set_aside_of(database)
        assert (entry.reader, entry.room_id, entry.event_id, entry.total) == (READER, room_id, failed, 1)
        assert entry.problem == "ValueError: fail?"
        async with database.connection() as connection:
            assert await connection.fetchval("SELECT entry FROM inbox WHERE set_aside_at IS NOT NULL") is None
        assert [failed in problem for problem in handler.problems] == [True] * module.MAX_ATTEMPTS
        async with reading(handler, home):
            await home.say(room_id, alice, "later")
            await handler.until(lambda: "later" in handler.handled)
        assert handler.begun[-1:] == ["later"]


async def test_what_takes_too_long_has_failed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDLE_TIMEOUT", 0.01)
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        async with reading(handler, home):
            await until_reading(home)
            await home.say(room_id, alice, "wait")
            await home.say(room_id, alice, "after")
            await handler.until(lambda: handler.handled == ["after"])
        [entry] = await set_aside_of(database)
        assert entry.problem.startswith("TimeoutError: It took longer than")


async def test_an_invalid_entry_is_set_aside(database: Database) -> None:
    """It does not block other events."""
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        async with reading(handler, home):
            await until_reading(home)
            await home.say(room_id, alice, "wait")
            broken = await home.say(room_id, alice, "broken")
            await home.say(room_id, alice, "after")
            async with asyncio.timeout(TIMEOUT):
                while await waiting_in(database) < 3:
                    await asyncio.sleep(0.01)
            async with database.connection() as connection:
                await connection.execute("UPDATE inbox SET entry = '{}' WHERE event_id = $1", broken)
            handler.go_on.set()
            await handler.until(lambda: handler.handled == ["wait", "after"])
        assert [entry.event_id for entry in await set_aside_of(database)] == [broken]


async def test_set_aside_is_forgotten_after_a_while(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCAN_INTERVAL", 0.01)
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        async with reading(handler, home):
            await until_reading(home)
            await home.say(room_id, alice, "fail")
            await home.say(room_id, alice, "after")
            await handler.until(lambda: handler.handled == ["after"])
            assert len(await set_aside_of(database)) == 1
            async with database.connection() as connection:
                # The other message may not be deleted yet.
                await connection.execute(
                    "UPDATE inbox SET set_aside_at = now() - interval '8 days' WHERE set_aside_at IS NOT NULL"
                )
            async with asyncio.timeout(TIMEOUT):
                while await set_aside_of(database):
                    await asyncio.sleep(0.01)


async def test_queues_without_a_worker_are_found_later(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next scan of the table."""
    monkeypatch.setattr(module, "MAX_QUEUES", 2)
    monkeypatch.setattr(module, "SCAN_INTERVAL", 0.01)
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        rooms = [await home.room(alice) for _ in range(5)]
        async with reading(handler, home):
            await until_reading(home)
            for number, room_id in enumerate(rooms):
                await home.say(room_id, alice, f"wait {number}")
            await handler.until(lambda: len(handler.begun) == 2)
            handler.go_on.set()
            await handler.until(lambda: len(handler.handled) == 5)
    assert sorted(handler.handled) == [f"wait {number}" for number in range(5)]


async def test_another_process_continues(database: Database, database_address: DatabaseAddress) -> None:
    """When this reader has ended, beginning with its unfinished events."""
    one, other = Handler(), Handler()
    async with homeserver_without_port("here.test", database) as home, home_on(database_address) as elsewhere:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        async with contextlib.AsyncExitStack() as stack:
            first = one.reads(home)
            first.start()
            stack.push_async_callback(first.close)
            await until_reading(home)
            await home.say(room_id, alice, "first")
            await home.say(room_id, alice, "wait")
            await one.until(lambda: "wait" in one.begun)
            await stack.enter_async_context(reading(other, elsewhere))
            await home.say(room_id, alice, "last")
            other.go_on.set()
            await home.say(room_id, alice, "very last")
            assert other.begun == []
            await first.close()
            await other.until(lambda: other.handled == ["wait", "last", "very last"])
    assert one.handled == ["first"]


async def test_a_replaced_reader_handles_no_more_events(database: Database) -> None:
    """Its session may have ended unnoticed."""
    handler = Handler()
    async with homeserver_without_port("here", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        async with reading(handler, home):
            await until_reading(home)
            await home.say(room_id, alice, "wait")
            await home.say(room_id, alice, "after")
            await handler.until(lambda: "wait" in handler.begun)
            async with asyncio.timeout(TIMEOUT):
                while await waiting_in(database) < 2:
                    await asyncio.sleep(0.01)
            async with database.transaction() as connection:
                await begin_term(connection, READER, 0)
            handler.go_on.set()
            await handler.until(lambda: handler.handled == ["wait"])
        assert handler.begun == ["wait"]
        assert await waiting_in(database) == 2


async def test_nothing_is_lost_when_the_process_is_killed(
    database: Database, database_address: DatabaseAddress
) -> None:
    """At any time, three times. Each event has its effect once, and in the order of its room."""
    count = 60
    async with homeserver_without_port("here.test", database) as home:
        alice = await home.user("alice")
        rooms = [await home.room(alice) for _ in range(5)]
    connection = await connect_once(database_address)
    await connection.execute("CREATE TABLE notes (id bigserial, room_id text, body text, UNIQUE (body))")
    await connection.close()
    async with asyncio.timeout(4 * TIMEOUT):
        for wanted in (40, 40, 40, None):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.bridge.people.service.handling_process",
                database_address.url,
                alice,
                str(count),
                *rooms,
                stdout=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None
            try:
                lines = 0
                while lines != wanted and await noted(database) < count * len(rooms):
                    assert await process.stdout.readline()
                    lines += 1
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)
                await process.communicate()
    async with database.connection() as connection:
        for room_id in rooms:
            rows = await connection.fetch("SELECT body FROM notes WHERE room_id = $1 ORDER BY id", room_id)
            assert [row[0] for row in rows] == [f"{room_id} {number}" for number in range(count)]
        assert await list_set_aside(connection, 1) == []


async def noted(database: Database) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("SELECT count(*) FROM notes"))
