"""The stream of everything taken in."""

import asyncio
from functools import partial

import orjson
import pytest

from federation.pdu import Pdu
from federation.room_event import EventHead, Wanted, everything
from federation.service.room_store import RoomStore
from federation.service.room_stream import RoomStream
from federation.stripped_state import strip
from storage.database import Database
from storage.incoming_transactions import Answered
from storage.outside_memberships import OutsideMembership, delete_membership, keep_invite
from storage.room_stream import Kind, StreamRow, append
from tests.support.graph import HERE, US, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, Room, public_room

PATIENCE = 60.0


async def test_a_reader_is_woken_by_what_is_committed_here(database: Database) -> None:
    """And goes on where it stopped."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        begin = await stream.last_position()
        assert await stream.read(begin) == []
        waiting = asyncio.create_task(stream.next(begin))
        joined = await join(here, room)
        (entry,) = await waiting
        assert (entry.kind, entry.pdu) == ("timeline", joined)
        waiting = asyncio.create_task(stream.next(entry.position))
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert [one.pdu for one in await waiting] == [sent]
        assert await stream.last_position() > entry.position


async def test_a_reader_is_woken_by_another_process(database: Database) -> None:
    """Through Postgres; here the other one is another pool on the same database."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        other = RoomStream(pool, RoomStore(pool))
        other.start()
        here.graph.stream.start()
        waiting = asyncio.create_task(other.next(0))
        joined = await join(here, room)
        assert [one.pdu for one in await waiting] == [joined]
        await other.close()


async def test_readers_at_different_places_read_the_same(database: Database) -> None:
    """Who is far behind reads everything, who is at the end what is new; each entry once, in one order."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        made = [await join(here, room)]
        ahead = (await stream.next(0))[-1].position
        waiting = [asyncio.create_task(stream.next(ahead)) for _ in range(3)]
        made.append(await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US))
        for reader in waiting:
            assert [entry.pdu for entry in await reader] == made[1:]
        made.append(await here.graph.send_event(room.room_id, "m.room.message", {"body": "2"}, US))
        behind: list[object] = []
        position = 0
        while len(behind) < len(made):
            (entry,) = await stream.next(position, 1)
            behind.append(entry.pdu)
            position = entry.position
        assert behind == made
        assert [entry.pdu for entry in await stream.next(ahead)] == made[1:]


async def test_what_was_committed_here_is_handed_on_from_memory(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database, of which nobody can read the stream here, is not asked for it."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as other:
        stream = here.graph.stream
        await join(here, room)
        end = (await stream.next(0))[-1].position
        waiting = asyncio.create_task(stream.next(end))
        sent = [await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US)]
        sent.append(await here.graph.send_event(room.room_id, "m.room.message", {"body": "2"}, US))
        async with other.transaction() as connection, asyncio.timeout(PATIENCE):
            await connection.execute("LOCK TABLE room_stream IN ACCESS EXCLUSIVE MODE")
            read = [*await waiting]
            while len(read) < len(sent):
                read += await stream.next(read[-1].position)
            assert [entry.pdu for entry in read] == sent
        assert await stream.read(end) == read


async def test_a_gap_is_filled_from_the_database(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places that others have, that were rolled back, and that are committed later than those behind them:
    readers get everything once, in its order, and nothing before what can still appear."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as other:
        stream = here.graph.stream
        joined = await join(here, room)
        end = (await stream.next(0))[-1].position
        async with other.transaction() as connection:
            await connection.execute("SELECT nextval('room_stream_positions')")
        entry: tuple[str, str, Kind] = (room.room_id, joined.event_id, "state")
        async with other.transaction() as connection:
            [held_back] = await append(connection, [entry])
            sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US)
            assert (await stream.read_on(end)).entries == []
        waiting = asyncio.create_task(stream.next(end))
        stream.wake([StreamRow(held_back, *entry)])
        read = [*await waiting]
        assert [(one.position, one.pdu) for one in read] == [(held_back, joined), (held_back + 1, sent)]
        async with other.transaction() as connection:
            [elsewhere] = await append(connection, [entry])
        said = await here.graph.send_event(room.room_id, "m.room.message", {"body": "2"}, US)
        read = [*await stream.next(held_back + 1)]
        assert [(one.position, one.pdu) for one in read] == [(elsewhere, joined), (elsewhere + 1, said)]
        assert await stream.read(held_back + 1) == read


async def test_what_comes_before_is_committed_after(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process: what follows it is not forgotten with it."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        joined = await join(here, room)
        end = (await stream.next(0))[-1].position
        entry: tuple[str, str, Kind] = (room.room_id, joined.event_id, "state")
        async with database.transaction() as connection:
            [first] = await append(connection, [entry])
            sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "1"}, US)
            assert (await stream.read_on(end)).entries == []
        stream.wake([StreamRow(first, *entry)])
        async with asyncio.timeout(PATIENCE):
            read = [*await stream.next(end)]
            while len(read) < 2:
                read += await stream.next(read[-1].position)
        assert [(one.position, one.pdu) for one in read] == [(end + 1, joined), (end + 2, sent)]


async def test_whoever_is_behind_goes_on_without_waiting(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much there is to read: nothing has to happen before the next part is read."""
    monkeypatch.setattr("federation.service.followed_stream.AT_ONCE", 2)
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        made = [await join(here, room)]
        for number in range(8):
            content = {"body": str(number)}
            made.append(await here.graph.send_event(room.room_id, "m.room.message", content, US))

        async def read() -> list[object]:
            seen: list[object] = []
            position = 0
            while len(seen) < len(made):
                for entry in await here.graph.stream.next(position, 3):
                    seen.append(entry.pdu)
                    position = entry.position
            return seen

        async with asyncio.timeout(PATIENCE):
            assert await asyncio.gather(read(), read(), read()) == [made] * 3


async def test_it_goes_on_after_a_restart_of_postgres(database: Database) -> None:
    """The connection that listens is made anew."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        here.graph.stream.start()
        joined = await join(here, room)
        async with pool_on(database.address) as pool, pool.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert [one.pdu for one in await here.graph.stream.next(0)] == [joined]
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert [one.pdu for one in await here.graph.stream.read(0)] == [joined, sent]


def says(body: str) -> Wanted:
    """Messages with that beginning."""
    return lambda event: isinstance(event, Pdu) and str(event.content.get("body")).startswith(body)


async def test_a_reader_is_handed_what_it_wants(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as it asks for at once, and where that ends; the rest the next time."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        await join(here, room)
        end = (await stream.next(0))[-1].position
        waiting = asyncio.create_task(stream.follow(end, 2, says("b"), 100))
        other = asyncio.create_task(stream.follow(end, 2, says("c"), 100))
        await here.graph.receive("b.example", raw(room.say(BOB, "a1")))
        said = [room.say(BOB, body) for body in ("a2", "b1", "b2", "b3", "a3")]
        await here.graph.receive("b.example", raw(*said))
        async with asyncio.timeout(PATIENCE):
            read = await waiting
            assert ([one.pdu for one in read.entries], read.upto) == (said[1:3], end + 4)
            read = await stream.follow(read.upto, 2, says("b"), 100)
            assert ([one.pdu for one in read.entries], read.upto) == (said[3:4], end + 6)
            assert not other.done()
            last = await here.graph.send_event(room.room_id, "m.room.message", {"body": "c"}, US)
            assert [one.pdu for one in (await other).entries] == [last]


async def test_a_reader_is_told_where_there_is_nothing_for_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once that is enough; what was there before it waited counts."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        await join(here, room)
        end = (await stream.next(0))[-1].position
        await here.graph.send_event(room.room_id, "m.room.message", {"body": "0"}, US)
        waiting = asyncio.create_task(stream.follow(end, 100, says("b"), 2))
        for number in (1, 2):
            await asyncio.sleep(0)
            assert not waiting.done()
            await here.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
        async with asyncio.timeout(PATIENCE):
            read = await waiting
            assert (read.entries, read.upto) == ([], end + 3)
            read = await stream.follow(end, 100, says("b"), 2)
            assert (read.entries, read.upto) == ([], end + 3)


async def test_the_mistake_of_a_reader_is_its_own(database: Database) -> None:
    """Whoever has committed hears nothing of it, nor does another reader."""
    room = public_room("12", BOB)

    def fail(event: EventHead) -> bool:
        raise KeyError(event.room_id)

    async with graph_on(database, room) as here:
        stream = here.graph.stream
        await join(here, room)
        end = (await stream.next(0))[-1].position
        failing = asyncio.create_task(stream.follow(end, 100, fail, 100))
        waiting = asyncio.create_task(stream.next(end))
        await asyncio.sleep(0)
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert [one.pdu for one in await waiting] == [sent]
        with pytest.raises(KeyError):
            await failing


def answer(pdu: Pdu, results: object) -> Answered:
    """To a transaction of one event."""
    return Answered("b.example", pdu.event_id, b"{}")


async def test_what_no_redaction_asks_for_is_known_when_it_is_committed(database: Database) -> None:
    """Of messages; and if one has come before them, or they are read later, it has to be looked for."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        await join(here, room)
        start = room.head
        end = (await stream.next(0))[-1].position
        first, second = (room.say(BOB, body, after=start) for body in ("first", "second"))
        redaction = room.propose("m.room.redaction", BOB, {"redacts": second.event_id}, after=start)
        whole = []
        for pdu in (first, redaction, second):
            waiting = asyncio.create_task(stream.follow(end, 100, everything, 100))
            await asyncio.sleep(0)
            await here.graph.receive("b.example", raw(pdu), answered=partial(answer, pdu))
            read = await waiting
            assert [one.pdu for one in read.entries] == [pdu]
            whole.append(read.is_whole)
            assert not (await stream.follow(end, 100, everything, 100)).is_whole
            end = read.upto
        waiting = asyncio.create_task(stream.follow(end, 100, everything, 100))
        await asyncio.sleep(0)
        await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        whole.append((await waiting).is_whole)
        assert whole == [True, False, False, True]


async def test_a_reader_behind_the_common_part_is_woken(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing lies between: of places that were rolled back nobody hears anything."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        await join(here, room)
        end = (await stream.next(0))[-1].position
        async with database.transaction() as connection:
            await connection.execute("SELECT nextval('room_stream_positions')")
        ahead = asyncio.create_task(stream.next(end + 1))
        await asyncio.sleep(0)
        behind = asyncio.create_task(stream.next(end))
        async with asyncio.timeout(PATIENCE):
            for number in range(3):
                sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
                for reader in (ahead, behind):
                    assert [one.pdu for one in await reader] == [sent]
                ahead = asyncio.create_task(stream.next(end + 2 + number))
                await asyncio.sleep(0)
                behind = asyncio.create_task(stream.next(end + 2 + number))
            ahead.cancel()
            behind.cancel()


async def test_what_nobody_tells_of_is_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By readers who look by themselves: a process may be killed between its commit and its notice."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 0.01)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        other = RoomStream(pool, RoomStore(pool))
        joined = await join(here, room)
        (entry,) = await other.next(0)
        assert entry.pdu == joined
        waiting = [asyncio.create_task(other.next(entry.position)) for _ in range(2)]
        sent = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        async with asyncio.timeout(PATIENCE):
            for reader in waiting:
                assert [one.pdu for one in await reader] == [sent]
        await other.close()


def invite(room: Room, user: str = US) -> OutsideMembership:
    """As it is kept for a user of a server that is not in the room."""
    event = room.member(ALICE, user, "invite")
    shown = orjson.dumps([strip(room.create)])
    version = room.version.id
    return OutsideMembership(
        room.room_id, user, "invite", version, event.event_id, ALICE, "a.example", event.canonical, shown, 5
    )


@pytest.mark.parametrize("version", ["10", "11", "12"])
async def test_an_invite_is_read_in_its_place_as_long_as_it_stands(database: Database, version: str) -> None:
    """With what is shown of the room. What has been answered is passed over, however much of it there is,
    and readers go on behind it."""
    room, known = public_room(version), public_room("12", BOB)
    kept = invite(room)
    async with graph_on(database, known) as here:
        stream = here.graph.stream
        for number in range(3):
            answered = invite(public_room(version), f"@gone{number}:{HERE}")
            async with database.transaction() as connection:
                assert await keep_invite(connection, answered)
                await delete_membership(connection, answered.room_id, answered.user_id)
        passed = await stream.read_on(0, 2)
        assert (passed.entries, passed.upto) == ([], await stream.last_position())
        async with database.transaction() as connection:
            assert await keep_invite(connection, kept)
        waiting = asyncio.create_task(stream.next(0, 2))
        (entry,) = await waiting
        assert (entry.kind, entry.pdu.event_id, entry.pdu.state_key) == ("invite", kept.event_id, US)
        assert entry.pdu.room_id == room.room_id
        assert [one["type"] for one in entry.invite_state] == ["m.room.create"]
        joined = await join(here, known)
        assert [one.kind for one in await stream.read(0)] == ["invite", "timeline"]
        assert [one.pdu for one in await stream.next(entry.position)] == [joined]


async def test_who_waits_may_look_at_what_is_being_written(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it concerns them and they want to; that it raises harms nobody, and it may never come."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        stream = here.graph.stream
        await join(here, room)
        end = (await stream.next(0))[-1].position
        said = room.say(BOB)
        seen: list[object] = []

        def fall_over(pdu: Pdu) -> None:
            seen.append(pdu)
            raise RecursionError

        def nothing(event: EventHead) -> bool:
            return False

        def wrong(event: EventHead) -> bool:
            raise ZeroDivisionError

        kinds = ((everything, fall_over), (nothing, seen.append), (wrong, seen.append), (everything, None))
        waiting = [
            asyncio.create_task(stream.follow(end, 9, wanted, 9, foresees)) for wanted, foresees in kinds
        ]
        given_up = asyncio.create_task(stream.follow(end, 9, everything, 9, seen.append))
        last = asyncio.create_task(stream.follow(end, 9, everything, 9, seen.append))
        while len(stream._waiting) < len(kinds) + 2:
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait({given_up})
        stream.foresee(said)
        assert seen == [said, said]
        assert not any(one.done() for one in (*waiting, last))
        assert (await stream.read_on(end)).entries == []
        for one in (*waiting, last):
            one.cancel()
        await asyncio.gather(*waiting, last, return_exceptions=True)
