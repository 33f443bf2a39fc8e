"""Who gets which connection, and when."""

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
    """Closed in the end, whatever a test has kept."""
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
    """As many as whatever has been started needs to come to where it waits."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_the_one_given_back_last_is_taken_first(database_address: DatabaseAddress) -> None:
    """It is the warm one, here and in Postgres."""
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


async def test_who_waits_is_served_in_turn(database_address: DatabaseAddress) -> None:
    """In the order in which they came, before all who come later; who has given up is passed over."""
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
        assert shared.idle() is None  # it is the next one's already
        await asyncio.gather(*waiting, return_exceptions=True)
        assert served == [0, 2, 3]
        assert shared.counts() == (1, 1)


async def test_who_gives_up_at_the_moment_he_is_served_takes_nothing(
    database_address: DatabaseAddress,
) -> None:
    """Neither a connection nor a place for one."""
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


async def test_the_place_of_one_that_is_dropped_is_the_next_ones(database_address: DatabaseAddress) -> None:
    """Who waits opens another in its place, also when it broke on the way to him."""
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


async def test_a_place_in_which_nothing_can_be_opened_is_passed_on(database_address: DatabaseAddress) -> None:
    """One who fails does not keep others from trying."""
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


async def test_no_more_than_the_maximum_at_any_time(database_address: DatabaseAddress) -> None:
    """However many come at once, and however they end."""
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


async def test_what_nobody_needed_is_closed(database_address: DatabaseAddress) -> None:
    """Except for as many as there are to be always."""
    async with pool(database_address, 4, minimum=1) as shared:
        assert shared.counts() == (1, 1)
        taken = [await shared.take() for _ in range(4)]
        for connection in taken:
            shared.give_back(connection)
        shared._close_unused()
        assert shared.counts() == (4, 4)  # they have been used a moment ago
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


async def test_closing_waits_for_those_who_came_before(database_address: DatabaseAddress) -> None:
    """For who uses a connection and who is in the queue for one. Whoever comes later is refused."""
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


async def test_closing_that_is_given_up_ends_every_connection(database_address: DatabaseAddress) -> None:
    """Nobody waits for ever for a user who does not come back."""
    async with pool(database_address, 2) as shared:
        kept = await shared.take()
        closing = asyncio.create_task(shared.close())
        await turns()
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert kept.is_closed()


async def test_closing_what_postgres_has_ended(database_address: DatabaseAddress) -> None:
    """Is no error, also when it is noticed only then."""
    async with pool(database_address, 2, 2) as shared:
        for connection in shared.connections:
            transport = connection._transport  # type: ignore[attr-defined]
            transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        await shared.close()
        assert shared.counts() == (0, 0)
