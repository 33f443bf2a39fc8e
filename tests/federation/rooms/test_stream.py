"""The event stream of a homeserver's rooms."""

import asyncio
from collections.abc import Iterable

import orjson
import pytest

from federation.events import EventId, Pdu
from federation.events.room_event import StreamedEvent
from federation.events.stripped_state import strip
from federation.rooms.receive import IncomingTransaction
from federation.rooms.store import RoomStore
from federation.rooms.stream import RoomStream
from storage.database import Database
from storage.federation.incoming_transactions import TransactionResponse
from storage.rooms.outside_memberships import OutsideMembership, delete_membership, insert_invite
from storage.rooms.stream import Kind, StreamRow, append
from tests.support.graph import HERE, US, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, Room, public_room

TIMEOUT = 60.0
NEVER = 3_600.0


@pytest.fixture(autouse=True)
def without_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable polling, so that only notifications wake readers."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", NEVER)


def ids(entries: Iterable[StreamedEvent]) -> list[EventId]:
    return [entry.event.event_id for entry in entries]


def places(entries: Iterable[StreamedEvent]) -> list[tuple[int, EventId]]:
    return [(entry.position, entry.event.event_id) for entry in entries]


async def test_a_reader_is_woken_by_a_commit_of_this_process(database: Database) -> None:
    """And continues where it stopped."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, asyncio.timeout(TIMEOUT):
        stream = here.graph.stream
        reader = stream.reader(await stream.last_position())
        waiting = asyncio.create_task(reader.next())
        joined = await join(here, room)
        (entry,) = await waiting
        assert (entry.kind, entry.event.event_id) == ("timeline", joined.event_id)
        waiting = asyncio.create_task(reader.next())
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert ids(await waiting) == [sent.event_id]
        assert await stream.last_position() > entry.position


async def test_a_reader_is_woken_by_another_process(database: Database) -> None:
    """Through Postgres; the other process is another pool on the same database."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        other = RoomStream(pool, RoomStore(pool))
        other.start()
        here.graph.stream.start()
        waiting = asyncio.create_task(other.reader(0).next())
        joined = await join(here, room)
        async with asyncio.timeout(TIMEOUT):
            assert ids(await waiting) == [joined.event_id]
        await other.close()


async def test_entries_without_notification_are_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By polling: a process may be killed between its commit and its notification."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.CHECK_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.Session.notify", lambda *_: None)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool, asyncio.timeout(TIMEOUT):
        other = RoomStream(pool, RoomStore(pool))
        other.start()
        joined = await join(here, room)
        (entry,) = await other.reader(0).next()
        assert entry.event.event_id == joined.event_id
        waiting = [asyncio.create_task(other.reader(entry.position).next()) for _ in range(2)]
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        for reader in waiting:
            assert ids(await reader) == [sent.event_id]
        await other.close()


async def test_readers_at_different_positions_read_the_same_entries(database: Database) -> None:
    """Each entry once, in one order."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, asyncio.timeout(TIMEOUT):
        stream = here.graph.stream
        made = [await join(here, room)]
        end = (await stream.reader(0).next())[-1].position
        ahead = stream.reader(end)
        waiting = asyncio.create_task(ahead.next())
        made.append(await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US))
        assert ids(await waiting) == ids_of(made[1:])
        made.append(await here.graph.send_event(room.room_id, "m.room.message", {"body": "2"}, US))
        behind = stream.reader(0)
        read = [entry for _ in made for entry in await behind.next(1)]
        assert ids(read) == ids_of(made)
        assert ids(await ahead.next()) == ids_of(made[2:])
        assert ids((await stream.read(0)).entries) == ids_of(made)


async def test_entries_of_this_process_are_published_from_the_cache(database: Database) -> None:
    """The database, whose stream cannot be read here, is not queried."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as other:
        stream = here.graph.stream
        await join(here, room)
        reader = stream.reader(0)
        end = (await reader.next())[-1].position
        waiting = asyncio.create_task(reader.next())
        await asyncio.sleep(0)
        sent = [await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US)]
        sent.append(await here.graph.send_event(room.room_id, "m.room.message", {"body": "2"}, US))
        async with other.transaction() as connection, asyncio.timeout(TIMEOUT):
            await connection.execute("LOCK TABLE room_stream IN ACCESS EXCLUSIVE MODE")
            read = [*await waiting]
            while len(read) < len(sent):
                read += await reader.next()
            assert ids(read) == ids_of(sent)
        assert (await stream.read(end)).entries == read


async def test_a_gap_is_filled_from_the_database(database: Database) -> None:
    """Positions of other processes, rolled back ones, and ones that are committed after later ones: readers
    get every entry once, in order, and none before an entry that can still appear."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as other, asyncio.timeout(TIMEOUT):
        stream = here.graph.stream
        joined = await join(here, room)
        reader = stream.reader(0)
        end = (await reader.next())[-1].position
        async with other.transaction() as connection:
            await connection.execute("SELECT nextval('room_stream_positions')")
        entry: tuple[str, str, Kind] = (room.room_id, joined.event_id, "state")
        waiting = asyncio.create_task(reader.next())
        async with other.transaction() as connection:
            [held_back] = await append(connection, [entry])
            sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US)
            assert (await stream.read(end)).entries == []
            assert not waiting.done()
        stream.wake([StreamRow(held_back, *entry)])
        assert places(await waiting) == [(held_back, joined.event_id), (held_back + 1, sent.event_id)]
        async with other.transaction() as connection:
            [elsewhere] = await append(connection, [entry])
        message = await here.graph.send_event(room.room_id, "m.room.message", {"body": "2"}, US)
        read = await reader.next()
        assert places(read) == [(elsewhere, joined.event_id), (elsewhere + 1, message.event_id)]
        assert (await stream.read(held_back + 1)).entries == read


async def test_positions_may_be_committed_out_of_order(database: Database) -> None:
    """In this process: later entries stay cached."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, asyncio.timeout(TIMEOUT):
        stream = here.graph.stream
        joined = await join(here, room)
        reader = stream.reader(0)
        end = (await reader.next())[-1].position
        entry: tuple[str, str, Kind] = (room.room_id, joined.event_id, "state")
        waiting = asyncio.create_task(reader.next())
        async with database.transaction() as connection:
            [first] = await append(connection, [entry])
            sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US)
            assert (await stream.read(end)).entries == []
            assert not waiting.done()
        stream.wake([StreamRow(first, *entry)], True)
        read = [*await waiting]
        while len(read) < 2:
            read += await reader.next()
        assert places(read) == [(end + 1, joined.event_id), (end + 2, sent.event_id)]


async def test_a_reader_that_is_behind_does_not_wait(database: Database) -> None:
    """It reads page after page without a new commit."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        made = [await join(here, room)]
        for number in range(8):
            content = {"body": str(number)}
            made.append(await here.graph.send_event(room.room_id, "m.room.message", content, US))

        async def read() -> list[EventId]:
            reader = here.graph.stream.reader(0)
            seen: list[EventId] = []
            while len(seen) < len(made):
                seen += ids(await reader.next(3))
            return seen

        async with asyncio.timeout(TIMEOUT):
            assert await asyncio.gather(read(), read(), read()) == [ids_of(made)] * 3


async def test_the_stream_continues_after_a_restart_of_postgres(database: Database) -> None:
    """The listening connection is opened again."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, asyncio.timeout(TIMEOUT):
        here.graph.stream.start()
        joined = await join(here, room)
        async with pool_on(database.address) as pool, pool.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert ids(await here.graph.stream.reader(0).next()) == [joined.event_id]
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert ids((await here.graph.stream.read(0)).entries) == [joined.event_id, sent.event_id]


def transaction_of(pdu: Pdu) -> IncomingTransaction:
    """A transaction with only this event."""
    return IncomingTransaction(pdu.event_id, lambda _: TransactionResponse("b.example", pdu.event_id, b"{}"))


async def test_a_redaction_is_applied_in_any_order(database: Database) -> None:
    """Also to entries that a waiting reader gets, and to earlier ones."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, asyncio.timeout(TIMEOUT):
        stream = here.graph.stream
        await join(here, room)
        start = room.head
        first, second = (room.say(BOB, body, after=start) for body in ("first", "second"))
        redaction = room.propose("m.room.redaction", BOB, {"redacts": second.event_id}, after=start)
        reader = stream.reader(await stream.last_position())
        shown = []
        for pdu in (first, redaction, second):
            waiting = asyncio.create_task(reader.next())
            await asyncio.sleep(0)
            await here.graph.receive_transaction("b.example", raw(pdu), transaction_of(pdu))
            (entry,) = await waiting
            shown.append((entry.event.event_id, entry.event.is_redacted))
        assert shown == [(first.event_id, False), (redaction.event_id, False), (second.event_id, True)]
        behind = stream.reader(await stream.last_position())
        late = room.say(BOB, "late")
        await here.graph.receive_transaction("b.example", raw(late), transaction_of(late))
        await here.graph.receive("b.example", raw(room.propose("m.room.redaction", BOB, {"redacts": late.event_id})))
        entries = await behind.next()
        assert (entries[0].event.event_id, entries[0].event.is_redacted) == (late.event_id, True)
        assert entries[1].event.redacts == late.event_id


def ids_of(pdus: Iterable[Pdu]) -> list[EventId]:
    return [pdu.event_id for pdu in pdus]


def invite(room: Room, user: str = US) -> OutsideMembership:
    """An invite as stored for a user of a server that is not in the room."""
    event = room.member(ALICE, user, "invite")
    shown = orjson.dumps([strip(room.create)])
    version = room.version.id
    return OutsideMembership(
        room.room_id, user, "invite", version, event.event_id, ALICE, "a.example", event.canonical, shown, 5
    )


@pytest.mark.parametrize("version", ["10", "11", "12"])
async def test_an_invite_is_read_until_it_is_answered(database: Database, version: str) -> None:
    """With the stripped state. Answered invites are skipped, however many, and readers continue behind
    them."""
    room, known = public_room(version), public_room("12", BOB)
    kept = invite(room)
    async with graph_on(database, known) as here:
        stream = here.graph.stream
        for number in range(3):
            answered = invite(public_room(version), f"@gone{number}:{HERE}")
            async with database.transaction() as connection:
                assert await insert_invite(connection, answered)
                await delete_membership(connection, answered.room_id, answered.user_id)
        passed = await stream.read(0, 2)
        assert (passed.entries, passed.last_position) == ([], await stream.last_position())
        async with database.transaction() as connection:
            assert await insert_invite(connection, kept)
        waiting = asyncio.create_task(stream.reader(0).next(2))
        (entry,) = await waiting
        assert (entry.kind, entry.event.event_id, entry.event.state_key) == ("invite", kept.event_id, US)
        assert entry.event.room_id == room.room_id
        assert [one["type"] for one in entry.invite_state] == ["m.room.create"]
        joined = await join(here, known)
        assert [one.kind for one in (await stream.read(0)).entries] == ["invite", "timeline"]
        assert ids(await stream.reader(entry.position).next()) == [joined.event_id]
