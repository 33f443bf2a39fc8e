"""What processes on one database tell each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from federation.service.room_store import RoomStore
from federation.service.room_stream import RoomStream
from federation.service.stream_notices import StreamNotices
from storage.database import Database
from storage.room_stream import CHANNEL
from tests.support.graph import US, graph_on, join
from tests.support.lingering import lingering
from tests.support.postgres import pool_on
from tests.support.rooms import BOB, public_room

PATIENCE = 60.0
FOR_EVER = 3_600.0


@dataclass
class Process:
    """As far as it tells and hears."""

    notices: StreamNotices
    heard: asyncio.Queue[None] = field(default_factory=asyncio.Queue)

    async def until_heard(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.heard.get()

    async def until_alone(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not self.notices.is_alone:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def process_on(database: Database) -> AsyncIterator[Process]:
    """It has begun to listen."""
    heard: asyncio.Queue[None] = asyncio.Queue()
    process = Process(StreamNotices(database, lambda: heard.put_nowait(None)), heard)
    process.notices.start()
    try:
        await process.until_heard()
        yield process
    finally:
        await process.notices.close()


async def test_a_process_that_is_alone_tells_nobody(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until another one comes, which says so, and is told at once what was kept from it."""
    monkeypatch.setattr("federation.service.stream_notices.ASKED_EVERY", FOR_EVER)
    told: asyncio.Queue[str] = asyncio.Queue()

    async def next_told() -> str:
        async with asyncio.timeout(PATIENCE):
            return await told.get()

    async with pool_on(database.address) as pool, pool.connection() as spectator:
        await spectator.add_listener(CHANNEL, lambda *notice: told.put_nowait(str(notice[-1])))
        async with process_on(database) as one:
            first = await next_told()
            await one.until_alone()
            one.notices.tell()
            async with process_on(database) as other:
                second = await next_told()
                assert second != first
                assert await next_told() == first
                await other.until_heard()
                assert not one.notices.is_alone
                assert not other.notices.is_alone
                for teller, hearer, name in ((one, other, first), (other, one, second)):
                    while not hearer.heard.empty():
                        hearer.heard.get_nowait()
                    teller.notices.tell()
                    await hearer.until_heard()
                    assert await next_told() == name


async def test_whoever_is_left_is_alone_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the other one has ended: its session counts, and nothing that it has said."""
    monkeypatch.setattr("federation.service.stream_notices.ASKED_EVERY", 0.01)
    async with process_on(database) as one, pool_on(database.address) as pool:
        async with process_on(pool):
            await one.until_heard()
            assert not one.notices.is_alone
        await one.until_alone()


async def test_whoever_cannot_hear_takes_nobody_for_gone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its connection is lost others may come. What it has missed it looks up when it has a new one."""
    monkeypatch.setattr("federation.service.stream_notices.ASKED_EVERY", 0.01)
    async with pool_on(database.address) as pool, process_on(pool) as one:
        await one.until_alone()
        async with database.connection() as connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks"
                " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
        await one.until_heard()
        await one.until_alone()


async def test_nobody_misses_what_is_committed_while_it_comes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process that took itself for alone a moment ago: no reader has to look by itself for it."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", FOR_EVER)
    monkeypatch.setattr("federation.service.stream_notices.ASKED_EVERY", 0.01)
    room = public_room("12", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        here.graph.stream.start()
        await join(here, room)
        for number in range(10):
            async with asyncio.timeout(PATIENCE):
                while not here.graph.stream._notices.is_alone:
                    await asyncio.sleep(0.01)
            other = RoomStream(pool, RoomStore(pool))
            position = await other.last_position()
            waiting = asyncio.create_task(other.next(position))
            other.start()
            for _ in range(number):
                await asyncio.sleep(0)
            sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": str(number)}, US)
            async with asyncio.timeout(PATIENCE):
                assert [one.pdu for one in await waiting] == [sent]
            await other.close()


async def test_it_ends_while_the_server_ends_its_connection(database: Database) -> None:
    """Between the server's last word and the end of the connection, too."""
    async with lingering(database) as link, pool_on(link.address) as pool:
        notices = StreamNotices(pool, lambda: None)
        notices.start()
        async with asyncio.timeout(PATIENCE):
            while not notices.is_alone:
                await asyncio.sleep(0.01)
            await link.end_holders()
            await notices.close()
