"""Reading the stream from a durable cursor that is committed with the reader's own changes."""

import asyncio
import contextlib
import signal
import sys

import pytest

from federation.events import Pdu
from federation.events.room_event import RoomEvent
from federation.rooms.receive import IncomingTransaction
from federation.stream.event_stream import Subscription
from storage.connect import DatabaseAddress
from storage.database import Database, connect_once
from storage.federation.incoming_transactions import TransactionResponse
from storage.rooms.stream import ReaderReplaced, advance, begin_term, list_cursors
from tests.federation.local_users.homes import TIMEOUT, Home, bodies, home_on
from tests.support.graph import graph_on, join, raw
from tests.support.rooms import BOB, public_room

COUNT = 300


async def test_a_reader_continues_at_its_committed_cursor(home: Home) -> None:
    """Events after a rollback, or without advancing, are read again."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    for number in range(5):
        await home.say(room_id, alice, str(number))
    async with home.rooms.subscription("a") as subscription:
        entries = await subscription.next()
        assert bodies(entry.event for entry in entries) == ["0", "1", "2", "3", "4"]
        assert entries == await subscription.next()
        with contextlib.suppress(KeyError):
            async with home.database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position)
                raise KeyError
        third = next(entry for entry in entries if entry.event.content.get("body") == "2")
        async with home.database.transaction() as connection:
            await subscription.advance(connection, third.position)
        assert bodies(entry.event for entry in await subscription.next(1)) == ["3"]
    async with home.rooms.subscription("a") as subscription:
        assert bodies(entry.event for entry in await subscription.next()) == ["3", "4"]
    async with home.rooms.subscription("b") as subscription:
        assert len(await subscription.next()) == len(entries)


async def test_a_new_reader_may_begin_at_the_end(home: Home) -> None:
    """A reader with a cursor continues at it."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    said = []
    for body in ("first", "second"):
        async with home.rooms.subscription("a", from_now=True) as subscription:
            said.append(body)
            await home.say(room_id, alice, body)
            assert bodies(entry.event for entry in await subscription.next()) == said


async def test_the_callers_statement_may_advance_a_reader(home: Home) -> None:
    """It gets the position, and the caller reports that it was committed."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    async with home.rooms.subscription("a", from_now=True) as subscription:
        said = [await home.say(room_id, alice, body) for body in ("first", "second")]
        entries = await subscription.next()
        async with home.database.autocommit() as connection:
            await advance(connection, *subscription.cursor(entries[0].position))
        subscription.set_position(entries[0].position)
        assert [entry.event.event_id for entry in await subscription.next()] == said[1:]
    async with home.rooms.subscription("a") as subscription:
        assert [entry.event.event_id for entry in await subscription.next()] == said[1:]


async def test_events_that_a_reader_does_not_want_are_skipped(home: Home) -> None:
    """The cursor need not advance: the next reader skips them again by its own filter."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    async with home.rooms.subscription("a", from_now=True, wanted=_is_message) as subscription:
        waiting = asyncio.create_task(subscription.next())
        await home.rooms.set_state(room_id, alice, "m.room.name", {"name": "Kitchen"})
        await home.rooms.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"})
        await home.say(room_id, alice, "first")
        (first,) = await waiting
        assert first.event.content["body"] == "first"
        assert await subscription.next() == [first]
        async with home.database.transaction() as connection:
            await subscription.advance(connection, first.position)
        waiting = asyncio.create_task(subscription.next())
        await home.rooms.set_state(room_id, alice, "m.room.name", {"name": "Cellar"})
        await home.say(room_id, alice, "second")
        (second,) = await waiting
        assert second.event.content["body"] == "second"
    async with home.rooms.subscription("a") as subscription:
        assert [one.event.type for one in await subscription.next()] == ["m.room.name", "m.room.message"]


async def test_the_cursor_advances_over_skipped_events_now_and_then(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that not all of them are skipped again after a restart."""
    monkeypatch.setattr("federation.stream.event_stream.MAX_SKIPPED", 2)
    alice = await home.user("alice")
    room_id = await home.room(alice)
    async with home.rooms.subscription("a", from_now=True, wanted=_is_message) as subscription:
        for number in range(5):
            await home.rooms.set_state(room_id, alice, "m.room.name", {"name": str(number)})
        waiting = asyncio.create_task(subscription.next(1))
        await home.say(room_id, alice, "heard")
        (heard,) = await waiting
        async with home.database.transaction() as connection:
            cursors = await list_cursors(connection)
        assert heard.position - 3 <= cursors["a"] < heard.position


def _is_message(event: RoomEvent) -> bool:
    return event.type == "m.room.message"


async def test_redactions_are_applied_to_read_events(home: Home) -> None:
    """Also to events before the redaction."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    async with home.rooms.subscription("a", from_now=True) as subscription:
        said = await home.say(room_id, alice, "oops")
        await home.rooms.redact(room_id, alice, said)
        entries = await subscription.next()
        assert [(entry.event.event_id, entry.event.content) for entry in entries][:1] == [(said, {})]
        assert entries[0].event.is_redacted
        assert entries[1].event.redacts == said


async def test_an_earlier_redaction_is_applied_to_published_events(database: Database) -> None:
    """A waiting reader gets a committed message without reading the database, except one that was redacted
    before it arrived."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        async with database.autocommit() as connection:
            term = await begin_term(connection, "a", await here.graph.stream.last_position())
        subscription = Subscription(here.graph.stream, database, "a", term)
        plain, oops = (room.say(BOB, body, after=start) for body in ("plain", "oops"))
        redaction = room.propose("m.room.redaction", BOB, {"redacts": oops.event_id}, after=start)
        contents = []
        for pdu in (plain, redaction, oops):
            waiting = asyncio.create_task(subscription.next())
            await here.graph.receive_transaction("b.example", raw(pdu), transaction_of(pdu))
            (entry,) = await waiting
            contents.append(entry.event.content)
            async with database.autocommit() as connection:
                await subscription.advance(connection, entry.position)
        assert contents == [plain.content, redaction.content, {}]


def transaction_of(pdu: Pdu) -> IncomingTransaction:
    """Return a transaction with this event only."""
    return IncomingTransaction(pdu.event_id, lambda _: TransactionResponse("b.example", pdu.event_id, b"{}"))


async def test_an_invite_is_read_while_it_is_valid(pair: tuple[Home, Home]) -> None:
    """With the stripped state of the room; a killed reader does not miss it."""
    here, there = pair
    alice, bob, eve = await here.user("alice"), await there.user("bob"), await there.user("eve")
    room_id = await here.room(alice, preset="private_chat", name="Kitchen")
    await here.rooms.invite(room_id, alice, eve)
    await there.rooms.leave(room_id, eve)
    await here.rooms.invite(room_id, alice, bob)
    async with there.rooms.subscription("a") as subscription:
        (entry,) = await subscription.next()
        assert (entry.kind, entry.event.type, entry.event.state_key) == ("invite", "m.room.member", bob)
        assert (entry.event.sender, entry.event.room_id) == (alice, room_id)
        assert {"m.room.create", "m.room.name"} <= {one["type"] for one in entry.invite_state}
        async with there.database.transaction() as connection:
            await subscription.advance(connection, entry.position)
        waiting = asyncio.create_task(subscription.next())
        await there.rooms.join(room_id, bob)
        (joined,) = await waiting
        assert (joined.kind, joined.event.content["membership"]) == ("timeline", "join")


async def test_one_process_at_a_time_reads_under_a_name(home: Home, database_address: DatabaseAddress) -> None:
    """Another one waits, and continues from the cursor."""
    alice = await home.user("alice")
    await home.room(alice)
    async with home_on(database_address) as second, contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(home.rooms.subscription("a"))

        async def read() -> int:
            async with second.rooms.subscription("a") as subscription:
                return len(await subscription.next())

        waiting = asyncio.create_task(read())
        entries = await first.next()
        async with home.database.transaction() as connection:
            await first.advance(connection, entries[3].position)
        assert not waiting.done()
        await stack.aclose()
        async with asyncio.timeout(TIMEOUT):
            assert await waiting == len(entries) - 4


async def test_a_replaced_reader_is_notified_and_commits_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its session may have ended without its noticing."""
    monkeypatch.setattr("federation.stream.event_stream.CONFIRMED_FOR", 0.0)
    alice = await home.user("alice")
    room_id = await home.room(alice)
    async with home.rooms.subscription("a") as subscription:
        entries = await subscription.next()
        async with home.database.transaction() as connection:
            await subscription.advance(connection, entries[-1].position)
        waiting = asyncio.create_task(subscription.next())
        await asyncio.sleep(0)
        async with home.database.transaction() as connection:
            await begin_term(connection, "a", 0)
        await home.say(room_id, alice, "new")
        with pytest.raises(ReaderReplaced):
            await waiting
        with pytest.raises(ReaderReplaced):
            await subscription.next()
        with pytest.raises(ReaderReplaced):
            async with home.database.transaction() as connection:
                await subscription.advance(connection, entries[-1].position + 1)


async def test_a_reader_replaced_a_moment_ago_commits_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease is checked when it commits; then it is notified."""
    monkeypatch.setattr("federation.stream.event_stream.CONFIRMED_FOR", 3_600.0)
    alice = await home.user("alice")
    room_id = await home.room(alice)
    async with home.rooms.subscription("a", from_now=True) as subscription:
        said = await home.say(room_id, alice, "new")
        (entry,) = await subscription.next()
        assert entry.event.event_id == said
        async with home.database.transaction() as connection:
            await begin_term(connection, "a", 0)
        assert await subscription.next() == [entry]
        with pytest.raises(ReaderReplaced):
            async with home.database.transaction() as connection:
                await subscription.advance(connection, entry.position)
        async with home.database.transaction() as connection:
            assert (await list_cursors(connection))["a"] < entry.position


async def test_a_killed_process_loses_and_duplicates_nothing(home: Home, database_address: DatabaseAddress) -> None:
    """Neither events sent under transaction ids nor the results of reading the stream. It is killed three
    times while it does both."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    connection = await connect_once(database_address)
    await connection.execute("CREATE TABLE notes (id bigserial, event_id text, body text)")
    await connection.close()
    before = len((await home.graph.stream.read(0, 1000)).entries)
    seen = 0
    for wanted in (60, 60, 60, None):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.federation.local_users.reading_process",
            database_address.url,
            room_id,
            alice,
            str(COUNT),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(4 * TIMEOUT):
                assert await process.stdout.readline() == b"reading\n"
                lines = 0
                while lines != wanted and seen + lines < COUNT + before:
                    assert await process.stdout.readline()
                    lines += 1
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            rest, _ = await process.communicate()
        seen += lines + rest.count(b"\n")
        # One may be committed but not yet announced.
        seen = max(seen, await noted(home.database))
    notes = await rows(home.database)
    assert [body for _, body in notes][before:] == [str(number) for number in range(COUNT)]
    entries = (await home.graph.stream.read(0, 1000)).entries
    assert [event_id for event_id, _ in notes] == [entry.event.event_id for entry in entries]


async def noted(database: Database) -> int:
    return len(await rows(database))


async def rows(database: Database) -> list[tuple[str, str]]:
    async with database.connection() as connection:
        found = await connection.fetch("SELECT event_id, body FROM notes ORDER BY id")
    return [(row[0], row[1]) for row in found]
