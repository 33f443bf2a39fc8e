"""By what other processes know that this one is alive."""

import asyncio

import pytest

from bridge.service.task_lease import TaskLease
from storage import tasks
from storage.database import Database
from tests.storage.test_tasks import TASK


class Desk:
    def __init__(self, database: Database) -> None:
        self.opened: asyncio.Queue[int] = asyncio.Queue()
        self.heard: asyncio.Queue[str] = asyncio.Queue()
        self.taken: list[int] = []
        self.lease = TaskLease(
            database.address,
            opened=lambda: self.opened.put_nowait(self.lease.number),
            hear=self.heard.put_nowait,
            report=lambda sentence, error: None,
        )

    async def take_over(self, number: int) -> None:
        self.taken.append(number)

    async def end_session(self, database: Database) -> None:
        """As a restart of Postgres does."""
        connection = self.lease._connection
        assert connection is not None
        async with database.transaction() as other:
            await other.execute("SELECT pg_terminate_backend($1)", connection.get_server_pid())


async def give_work(database: Database, number: int) -> None:
    async with database.transaction() as connection:
        await tasks.insert_task(connection, TASK._replace(request_id=f"of-{number}", desk=number))


async def test_what_lives_is_no_orphan(database: Database) -> None:
    """What has ended is: once, for one of the others, and not for itself."""
    one, other = Desk(database), Desk(database)
    await one.lease.start()
    await other.lease.start()
    try:
        numbers = one.lease.number, other.lease.number
        assert len(set(numbers)) == 2
        for number in (*numbers, 77):
            await give_work(database, number)
        await other.lease.each_orphan(other.take_over)
        assert other.taken == [77]
        await one.lease.close()
        while numbers[0] not in other.taken:  # the server notices the end a moment after it
            await other.lease.each_orphan(other.take_over)
        assert set(other.taken) == {77, numbers[0]}
    finally:
        await one.lease.close()
        await other.lease.close()


async def test_two_do_not_take_over_the_same(database: Database) -> None:
    """As long as one is at it, the other leaves it alone."""
    one, other = Desk(database), Desk(database)
    await give_work(database, 77)
    await one.lease.start()
    await other.lease.start()

    async def meanwhile(number: int) -> None:
        await other.lease.each_orphan(other.take_over)

    try:
        await one.lease.each_orphan(meanwhile)
        assert other.taken == []
        await other.lease.each_orphan(other.take_over)
        assert other.taken == [77]
    finally:
        await one.lease.close()
        await other.lease.close()


async def test_with_a_new_session_it_has_the_same_number(database: Database) -> None:
    """What runs in this process goes on under it; and it hears again."""
    desk = Desk(database)
    await desk.lease.start()
    try:
        number = await desk.opened.get()
        await desk.end_session(database)
        assert await desk.opened.get() == number
        async with database.transaction() as connection:
            await tasks.notify(connection, "hello")
        assert await desk.heard.get() == "hello"
    finally:
        await desk.lease.close()


async def test_a_number_that_was_taken_over_is_not_its_own_any_more(database: Database) -> None:
    """Another process is at its tasks."""
    desk = Desk(database)
    await desk.lease.start()
    try:
        number = await desk.opened.get()
        async with database.connection() as thief:
            pid = await thief.fetchval("SELECT pg_backend_pid()")
            waiting = asyncio.create_task(
                thief.execute("SELECT pg_advisory_lock(x'5041444B'::integer, $1)", number)
            )
            async with database.connection() as onlooker:
                query = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted"
                while not await onlooker.fetchval(query, pid):
                    await asyncio.sleep(0.01)
            await desk.end_session(database)
            await waiting
            assert await desk.opened.get() != number
    finally:
        await desk.lease.close()


async def test_without_a_session_there_are_no_orphans(database: Database) -> None:
    """There is nothing by which to lock them."""
    desk = Desk(database)
    await give_work(database, 77)
    await desk.lease.each_orphan(desk.take_over)
    assert desk.taken == []


async def test_who_is_told_to_stop_while_the_session_ends_stops(database: Database) -> None:
    """A lock that cannot be given back any more hides that from nobody."""
    desk = Desk(database)
    await give_work(database, 77)
    await desk.lease.start()
    at_it = asyncio.Event()

    async def take_for_ever(number: int) -> None:
        at_it.set()
        await asyncio.Event().wait()

    try:
        await desk.opened.get()
        taking = asyncio.create_task(desk.lease.each_orphan(take_for_ever))
        await at_it.wait()
        connection = desk.lease._connection
        assert connection is not None
        connection.terminate()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
    finally:
        await desk.lease.close()
