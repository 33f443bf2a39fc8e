"""Which process reads under a name."""

import asyncio
import contextlib

import pytest

from federation.service.consumer_lease import ConsumerLease
from storage.database import Database, connect_once
from tests.support.lingering import lingering
from tests.support.postgres import pool_on


async def held(lease: ConsumerLease, name: str, began: asyncio.Event, end: asyncio.Event) -> None:
    async with lease.held(name):
        began.set()
        await end.wait()


async def test_one_at_a_time_reads_under_a_name(database: Database) -> None:
    """In this process and among all processes; under different names all read at once."""
    one, other = ConsumerLease(database.address), ConsumerLease(database.address)
    began, end = [asyncio.Event() for _ in range(4)], [asyncio.Event() for _ in range(4)]
    readers = []
    for number, (lease, name) in enumerate([(one, "a"), (one, "b"), (one, "a"), (other, "a")]):
        readers.append(asyncio.create_task(held(lease, name, began[number], end[number])))
        if number < 2:
            await began[number].wait()
    waiting = {began[2], began[3]}
    assert not any(event.is_set() for event in waiting)
    end[0].set()
    # Which of the two it is now is nobody's business; the other one waits on.
    tasks = [asyncio.create_task(event.wait()) for event in waiting]
    _, still = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert len(still) == 1
    for event in end:
        event.set()
    await asyncio.gather(*readers, *tasks)
    await one.close()
    await other.close()


async def test_a_session_that_ends_leaves_its_locks(database: Database) -> None:
    """However it ends; and whoever had it asks for a new one."""
    one, other = ConsumerLease(database.address), ConsumerLease(database.address)
    async with contextlib.AsyncExitStack() as stack:
        taken = await stack.enter_async_context(one.held("a"))
        assert taken.holds
        admin = await connect_once(database.address)
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        await admin.close()
        async with other.held("a") as again:
            assert not await one.answers()
            assert (taken.holds, again.holds) == (False, True)
    async with one.held("a"), pool_on(database.address) as pool, pool.connection() as connection:
        count = await connection.fetchval(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database"
            " WHERE locktype = 'advisory' AND datname = current_database()"
        )
        assert count == 1
    await one.close()
    await one.close()
    await other.close()


async def test_whoever_is_cancelled_while_the_server_ends_the_session_is_cancelled(
    database: Database,
) -> None:
    """Between the server's last word and the end of the connection nothing can be given back, and nothing
    need be."""
    async with lingering(database) as link:
        lease = ConsumerLease(link.address)
        began = asyncio.Event()
        reader = asyncio.create_task(held(lease, "a", began, asyncio.Event()))
        await began.wait()
        await link.end_holders()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        # Nor does the next one wait for a session of which nothing more will come.
        async with lease.held("a"):
            pass
        await lease.close()


async def test_what_several_share_nobody_has_alone(database: Database) -> None:
    """And the other way round; a session gives it back when it ends."""
    one, other, third = (ConsumerLease(database.address) for _ in range(3))
    assert await one.try_hold("a", shared=True)
    assert await other.try_hold("a", shared=True)
    assert not await third.try_hold("a")
    assert await third.try_hold("b")
    assert not await one.try_hold("b", shared=True)
    await one.close()
    await other.close()
    assert await third.try_hold("a")
    await third.close()


async def test_a_session_that_has_ended_does_not_answer(database: Database) -> None:
    """However it has; the next one is another one."""
    lease = ConsumerLease(database.address)
    assert not await lease.answers()
    assert await lease.try_hold("a")
    session = lease.session
    assert await lease.answers()
    admin = await connect_once(database.address)
    await admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON oid = database"
        " WHERE locktype = 'advisory' AND datname = current_database()"
    )
    await admin.close()
    assert not await lease.answers()
    assert lease.session is None
    assert await lease.try_hold("a")
    assert lease.session is not session
    await lease.close()
