"""One writer for each room."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from federation.errors import MatrixError
from federation.service.room_draft import RoomDraft
from federation.service.room_writing import Named
from storage.connecting import ConnectionLost
from storage.database import Database
from tests.support.graph import HERE, US, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, public_room


async def test_two_processes_write_to_one_room_in_turn(database: Database) -> None:
    """What one has done the other sees: all events form one chain."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        async with graph_on(pool, room) as there:
            made = await asyncio.gather(
                *(
                    one.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
                    for number in range(40)
                    for one in (here, there)
                )
            )
            assert len({pdu.prev_events for pdu in made}) == len(made)
            assert all(len(pdu.prev_events) == 1 for pdu in made)
            depths = sorted(pdu.depth for pdu in made)
            assert depths == list(range(depths[0], depths[0] + 80))
            entries = await here.graph.stream.read(0, 100)
            assert [entry.pdu.depth for entry in entries[1:]] == depths
            assert await there.graph.servers_in_room(room.room_id) == {"a.example", "b.example", HERE}


async def test_the_state_that_another_process_has_changed_is_seen(database: Database) -> None:
    """The generation says that what is remembered does not hold any more."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        async with graph_on(pool, room) as there:
            assert "b.example" in await there.graph.servers_in_room(room.room_id)
            banned = room.member(ALICE, BOB, "ban")
            await here.graph.receive("a.example", raw(banned))
            assert "b.example" not in await there.graph.servers_in_room(room.room_id)
            said = await there.graph.send_event(room.room_id, "m.room.message", {}, US)
            assert said.prev_events == (banned.event_id,)


async def test_rooms_in_any_order_never_wait_for_each_other(database: Database) -> None:
    """Two transactions with the same rooms, from two servers and in two processes."""
    rooms = [public_room("12", BOB, number=number) for number in range(5)]
    async with graph_on(database, rooms[0]) as here, pool_on(database.address) as pool:
        for room in rooms:
            await join(here, room)
        async with graph_on(pool, rooms[0]) as there:
            for _ in range(10):
                starts = {room.room_id: room.head for room in rooms}
                first = [room.say(ALICE, after=starts[room.room_id]) for room in rooms]
                second = [room.say(BOB, after=starts[room.room_id]) for room in reversed(rooms)]
                results = await asyncio.gather(
                    here.graph.receive("a.example", raw(*first)),
                    there.graph.receive("b.example", raw(*second)),
                )
                assert [len(one) for one in results] == [5, 5]
            views = [await here.graph.room(room.room_id) for room in rooms]
            assert all(view is not None and len(view.forward_extremities) == 2 for view in views)


async def test_what_is_rolled_back_is_not_remembered(database: Database) -> None:
    """The hook fails after everything has been written; then it does not."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        before = await here.graph.room(room.room_id)
        hook = here.hook.committed

        async def fail(*_: object) -> None:
            raise OSError("no space left")

        writing = here.graph._own_events._writing
        writing._queue = None  # not by one statement
        writing._on_commit, kept = fail, writing._on_commit
        with pytest.raises(OSError, match="no space"):
            await here.graph.send_event(room.room_id, "m.room.message", {"body": "lost"}, US)
        with pytest.raises((OSError, MatrixError)):
            await here.graph.receive("a.example", raw(room.propose("m.room.message", ALICE, {})))
        writing._on_commit = kept
        assert await here.graph.room(room.room_id) == before
        assert len(hook) == 1
        said = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert said.prev_events == (room.head[0].event_id,)


async def test_a_lost_connection_is_an_error_and_then_all_is_well(database: Database) -> None:
    """Whether the commit was done is seen from the room's generation."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)

        async def cut(connection: object, _: object) -> None:
            pid = connection.get_server_pid()  # type: ignore[attr-defined]  # of asyncpg
            async with pool_on(database.address) as pool, pool.connection() as other:
                await other.execute("SELECT pg_terminate_backend($1)", pid)

        writing = here.graph._own_events._writing
        writing._queue = None  # not by one statement
        writing._on_commit, kept = cut, writing._on_commit
        with pytest.raises(ConnectionLost):
            await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        writing._on_commit = kept
        said = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert said.prev_events == (room.head[0].event_id,)


async def test_what_is_said_takes_one_statement(database: Database) -> None:
    """No transaction is begun for messages in a room that is remembered; who must be told is told as ever."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)

        async def fail(*_: object) -> None:
            raise AssertionError("it is called in transactions")

        here.graph._own_events._writing._on_commit = fail
        texts = [{"body": str(number)} for number in range(5)]
        said = [await here.graph.send_event(room.room_id, "m.room.message", text, US) for text in texts]
        assert here.hook.ids[-5:] == [pdu.event_id for pdu in said]
        assert here.hook.committed[-1].destinations == {"a.example", "b.example"}


async def test_whoever_remembers_the_room_as_it_was_speaks_after_what_there_is(database: Database) -> None:
    """Two processes take turns: the head is compared when it is written, and looked up when it is another."""
    room = public_room("12", BOB)
    async with (
        graph_on(database, room) as here,
        pool_on(database.address) as pool,
        graph_on(pool, room) as there,
    ):
        await join(here, room)
        said = [room.head[0].event_id]
        for number in range(3):
            for one in (here, there):
                pdu = await one.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
                assert pdu.prev_events == (said[-1],)
                said.append(pdu.event_id)
        both = await asyncio.gather(
            *(one.graph.send_event(room.room_id, "m.room.message", {}, US) for one in (here, there))
        )
        first, second = sorted(both, key=lambda pdu: pdu.depth)
        assert second.prev_events == (first.event_id,)


async def test_a_connection_that_is_lost_while_something_is_said(database: Database) -> None:
    """Whoever said it says it again, and it is the same event whether it was written or not."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        writing = here.graph._own_events._writing
        say, found = writing.say, []

        async def cut(room_id: str, make: Callable[[RoomDraft], Awaitable[Named | None]]) -> bool:
            async def make_and_cut(draft: RoomDraft) -> Named | None:
                made = await make(draft)
                pid = draft._connection.get_server_pid()
                async with pool_on(database.address) as pool, pool.connection() as other:
                    await other.execute("SELECT pg_terminate_backend($1)", pid)
                found.append(pid)
                return made

            return await say(room_id, make_and_cut)

        writing.say = cut  # type: ignore[method-assign]
        with pytest.raises(ConnectionLost):
            await here.graph.send_event(room.room_id, "m.room.message", {}, US, transaction_id="1")
        writing.say = say  # type: ignore[method-assign]
        said = await here.graph.send_event(room.room_id, "m.room.message", {}, US, transaction_id="1")
        again = await here.graph.send_event(room.room_id, "m.room.message", {}, US, transaction_id="1")
        assert said == again
        assert said.prev_events == (room.head[0].event_id,)
        assert len(found) == 1
