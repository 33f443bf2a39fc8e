"""The stream of everything taken in."""

import asyncio

from federation.service.room_store import RoomStore
from federation.service.room_stream import RoomStream
from storage.database import Database
from tests.support.graph import US, graph_on, join
from tests.support.postgres import pool_on
from tests.support.rooms import BOB, public_room


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
