"""A connection that hears and is opened again."""

import asyncio

import pytest

from bridge.service.session import Session
from storage.address import DatabaseAddress
from storage.database import Database, Single
from storage.errors import LocalError
from tests.support.lingering import lingering
from tests.support.ports import lasting_port

CHANNEL = "test_channel"


class Ear:
    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.opened: asyncio.Queue[int] = asyncio.Queue()

    async def open(self, connection: Single) -> None:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        await self.opened.put(pid)

    def session(self, address: DatabaseAddress) -> Session:
        return Session(address, CHANNEL, opened=self.open, hear=self.heard.put_nowait)


async def tell(database: Database, what: str) -> None:
    async with database.transaction() as connection:
        await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, what)


async def test_it_hears_again_after_it_was_ended(database: Database) -> None:
    """A restart of Postgres ends it; whoever uses it is told to look for what was missed."""
    ear = Ear()
    session = ear.session(database.address)
    await session.start()
    try:
        first = await ear.opened.get()
        await tell(database, "one")
        assert await ear.heard.get() == "one"
        async with database.transaction() as connection:
            await connection.execute("SELECT pg_terminate_backend($1)", first)
        assert await ear.opened.get() != first
        await tell(database, "two")
        assert await ear.heard.get() == "two"
    finally:
        await session.close()


async def test_it_goes_on_trying_when_what_follows_the_opening_fails(database: Database) -> None:
    """A failure is reported, and the next attempt begins with a fresh connection."""
    ear = Ear()
    reports: list[str] = []
    failures = [OSError("broken"), OSError("broken")]

    async def opened(connection: Single) -> None:
        await ear.open(connection)
        if ear.opened.qsize() > 1 and failures:
            raise failures.pop()

    session = Session(
        database.address,
        CHANNEL,
        opened=opened,
        hear=ear.heard.put_nowait,
        report=lambda sentence, error: reports.append(sentence),
    )
    await session.start()
    try:
        async with database.transaction() as connection:
            first = await ear.opened.get()
            ear.opened.put_nowait(first)
            await connection.execute("SELECT pg_terminate_backend($1)", first)
        while failures:
            await asyncio.sleep(0.01)
        while ear.opened.qsize() < 4:
            await asyncio.sleep(0.01)
        await tell(database, "one")
        assert await ear.heard.get() == "one"
        assert len(reports) == 2
    finally:
        await session.close()


async def test_its_end_gives_back_its_locks(database: Database) -> None:
    """That is what they are taken in it for."""
    locked = asyncio.Event()

    async def lock(connection: Single) -> None:
        await connection.execute("SELECT pg_advisory_lock(77)")
        locked.set()

    session = Session(database.address, CHANNEL, opened=lock, hear=lambda _: None)
    await session.start()
    await locked.wait()
    async with database.connection() as connection:
        assert not await connection.fetchval("SELECT pg_try_advisory_lock(77)")
    await session.close()
    async with database.connection() as connection:
        # The server notices the end a moment after it.
        await connection.execute("SELECT pg_advisory_lock(77)")


async def test_without_postgres_the_start_says_so() -> None:
    """The first connection is not tried for ever."""
    address = DatabaseAddress.from_url(f"postgresql://nobody@127.0.0.1:{lasting_port()}/none")
    with pytest.raises(LocalError):
        await Ear().session(address).start()


async def test_it_is_closed_without_having_been_started(database: Database) -> None:
    """Whoever fails in the middle of a start closes everything."""
    await Ear().session(database.address).close()


async def test_it_goes_on_when_the_server_ends_it_while_it_is_opened(database: Database) -> None:
    """Also when that has been said, and the connection is there for a moment more."""
    async with lingering(database) as link:
        openings: asyncio.Queue[int] = asyncio.Queue()
        reports: asyncio.Queue[str] = asyncio.Queue()

        async def opened(connection: Single) -> None:
            await connection.execute("SELECT pg_advisory_lock(1)")
            openings.put_nowait(openings.qsize())
            if openings.qsize() == 2:
                await link.end_holders()
                await connection.execute("SELECT 1")

        session = Session(
            link.address,
            CHANNEL,
            opened=opened,
            hear=lambda payload: None,
            report=lambda sentence, error: reports.put_nowait(sentence),
        )
        await session.start()
        try:
            assert session._connection is not None
            # The first one ends as connections usually do.
            session._connection.terminate()
            async with asyncio.timeout(30):
                await reports.get()
                while openings.qsize() < 3:
                    await asyncio.sleep(0.02)
        finally:
            await session.close()
