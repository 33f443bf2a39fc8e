"""The connection pool."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import asyncpg
import pytest

from storage.connect import DatabaseAddress
from storage.pool import Pool
from tests.support.postgres import CLOSING


@contextlib.asynccontextmanager
async def pool(address: DatabaseAddress, maximum: int, minimum: int = 0) -> AsyncIterator[Pool]:
    """A pool that is closed at the end, whatever connections a test still uses."""
    opened = Pool(address, minimum=minimum, maximum=maximum, connect_timeout=60.0)
    await opened.start()
    try:
        yield opened
    finally:
        try:
            async with asyncio.timeout(CLOSING):
                await opened.close()
        finally:
            opened.terminate()


async def turns(number: int = 10) -> None:
    """Let the event loop run until started tasks wait."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_the_last_returned_connection_is_taken_first(database_address: DatabaseAddress) -> None:
    """Its caches are warm, in this process and in Postgres."""
    async with pool(database_address, 3) as shared:
        assert shared.counts() == (0, 0)
        assert shared.idle() is None
        first, second = await shared.take(), await shared.take()
        assert first is not second
        shared.give_back(first)
        shared.give_back(second)
        assert shared.counts() == (2, 2)
        assert shared.idle() is second
        assert await shared.take() is first
        shared.give_back(second)
        shared.give_back(first)


async def test_waiting_callers_are_served_in_order(database_address: DatabaseAddress) -> None:
    """Before later callers; a cancelled caller is skipped."""
    async with pool(database_address, 1) as shared:
        only = await shared.take()
        served: list[int] = []

        async def use(number: int) -> None:
            assert await shared.take() is only
            served.append(number)
            shared.give_back(only)

        waiting = [asyncio.create_task(use(number)) for number in range(4)]
        await turns()
        waiting[1].cancel()
        shared.give_back(only)
        assert shared.idle() is None  # already passed on to the next caller
        await asyncio.gather(*waiting, return_exceptions=True)
        assert served == [0, 2, 3]
        assert shared.counts() == (1, 1)


async def test_a_caller_cancelled_while_being_served_takes_nothing(database_address: DatabaseAddress) -> None:
    """Neither a connection nor the right to open one."""
    async with pool(database_address, 1) as shared:
        only = await shared.take()
        waiting = asyncio.create_task(shared.take())
        await turns()
        shared.give_back(only)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert shared.idle() is only
        waiting = asyncio.create_task(shared.take())
        await turns()
        shared.drop(only)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        another = await shared.take()
        assert another is not only
        shared.give_back(another)


async def test_a_dropped_connection_lets_the_next_caller_open_one(database_address: DatabaseAddress) -> None:
    """Also if it breaks while being passed on."""
    async with pool(database_address, 1) as shared:
        only = await shared.take()
        waiting = asyncio.create_task(shared.take())
        await turns()
        shared.drop(only)
        second = await waiting
        waiting = asyncio.create_task(shared.take())
        await turns()
        shared.give_back(second)
        second.terminate()
        third = await waiting
        assert len({only, second, third}) == 3
        assert shared.counts() == (1, 0)
        shared.give_back(third)
        third.terminate()
        assert shared.counts() == (0, 0)
        assert shared.idle() is None


async def test_a_failed_attempt_to_open_lets_the_next_caller_try(database_address: DatabaseAddress) -> None:
    async with pool(database_address, 1) as shared:
        only = await shared.take()
        waiting = [asyncio.create_task(shared.take()) for _ in range(2)]
        await turns()
        shared.address = DatabaseAddress("postgresql://nobody@127.0.0.1:1/nothing")
        shared.drop(only)
        failed = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(error, OSError) for error in failed)
        shared.address = database_address
        shared.give_back(await shared.take())


async def test_the_maximum_is_never_exceeded(database_address: DatabaseAddress) -> None:
    """However many callers there are, and however their work ends."""
    async with pool(database_address, 2) as shared:

        async def use(number: int) -> None:
            connection = await shared.take()
            assert await connection.fetchval("SELECT $1::integer", number) == number
            assert len(shared.connections) <= 2
            if number % 5:
                shared.give_back(connection)
            else:
                shared.drop(connection)

        users = [asyncio.create_task(use(number)) for number in range(30)]
        await turns(3)
        users[20].cancel()
        ended = await asyncio.gather(*users, return_exceptions=True)
        assert [number for number, error in enumerate(ended) if error is not None] == [20]


async def test_unused_connections_are_closed(database_address: DatabaseAddress) -> None:
    """Except for the minimum."""
    async with pool(database_address, 4, minimum=1) as shared:
        assert shared.counts() == (1, 1)
        taken = [await shared.take() for _ in range(4)]
        for connection in taken:
            shared.give_back(connection)
        shared._close_unused()
        assert shared.counts() == (4, 4)  # used since the last sweep
        last, one_before = await shared.take(), await shared.take()
        shared.give_back(one_before)
        shared.give_back(last)
        shared._close_unused()
        assert shared.counts() == (2, 2)
        assert shared.connections == {last, one_before}
        shared._close_unused()
        assert shared.counts() == (1, 1)
        assert shared.idle() is last
        shared._close_unused()
        shared.give_back(last)


async def test_closing_waits_for_earlier_callers(database_address: DatabaseAddress) -> None:
    """For users of a connection and waiting callers. Later callers are refused."""
    async with pool(database_address, 1) as shared:
        only = await shared.take()
        waiting = asyncio.create_task(shared.take())
        await turns()
        closing = asyncio.create_task(shared.close())
        await turns()
        with pytest.raises(asyncpg.InterfaceError, match="closed"):
            await shared.take()
        shared.give_back(only)
        assert await waiting is only
        await turns()
        assert not closing.done()
        assert await only.fetchval("SELECT 1") == 1
        shared.give_back(only)
        await closing
        assert only.is_closed()
        assert shared.idle() is None


async def test_cancelling_close_terminates_all_connections(database_address: DatabaseAddress) -> None:
    """Close does not wait forever for a connection that is never returned."""
    async with pool(database_address, 2) as shared:
        kept = await shared.take()
        closing = asyncio.create_task(shared.close())
        await turns()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert kept.is_closed()


async def test_closing_connections_that_postgres_has_ended(database_address: DatabaseAddress) -> None:
    """It is no error, also if it is noticed only then."""
    async with pool(database_address, 2, 2) as shared:
        for connection in shared.connections:
            transport = connection._transport  # type: ignore[attr-defined]
            transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        await shared.close()
        assert shared.counts() == (0, 0)
