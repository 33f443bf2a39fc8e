"""The lease by which other processes know that a process still works on its tasks."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.tasks.lease import TaskLease
from storage.agents import tasks
from storage.concurrency import BackgroundTasks
from storage.database import Database
from tests.storage.agents.test_tasks import TASK
from tests.support.postgres import as_another_process, lose_session

TIMEOUT = 60.0


class Process:
    def __init__(self, database: Database) -> None:
        self.database = as_another_process(database)
        self.background = BackgroundTasks()
        self.taken: list[int] = []
        self.lease = TaskLease(self.database, self.background)

    async def take_over(self, number: int) -> None:
        self.taken.append(number)

    async def close(self) -> None:
        await self.background.close()
        await self.lease.close()


@pytest.fixture
async def two(database: Database) -> AsyncIterator[tuple[Process, Process]]:
    processes = Process(database), Process(database)
    for process in processes:
        await process.lease.start()
    yield processes
    for process in processes:
        await process.close()


async def give_work(database: Database, number: int) -> None:
    async with database.transaction() as connection:
        await tasks.accept_task(connection, TASK._replace(request_id=f"of-{number}", process_number=number))


async def locks(database: Database) -> set[tuple[int, int]]:
    """The advisory locks of this database, each with its session."""
    query = (
        "SELECT pid, objid::bigint FROM pg_locks JOIN pg_database ON pg_database.oid = database"
        " WHERE locktype = 'advisory' AND granted AND datname = current_database()"
    )
    return {tuple(row) for row in await database.read(lambda connection: connection.fetch(query))}


async def test_only_tasks_of_ended_processes_are_taken_over(database: Database, two: tuple[Process, Process]) -> None:
    """Once, by one of the other processes, and never the own ones."""
    one, other = two
    numbers = one.lease.number, other.lease.number
    assert len(set(numbers)) == 2
    for number in (*numbers, 77):
        await give_work(database, number)
    await other.lease.take_over_orphans(other.take_over)
    assert other.taken == [77]
    await one.close()
    await other.lease.take_over_orphans(other.take_over)
    assert set(other.taken) == {77, numbers[0]}


async def test_only_one_process_takes_over(database: Database, two: tuple[Process, Process]) -> None:
    """While it does, others skip the number."""
    one, other = two
    await give_work(database, 77)

    async def meanwhile(number: int) -> None:
        await other.lease.take_over_orphans(other.take_over)

    await one.lease.take_over_orphans(meanwhile)
    assert other.taken == []
    await other.lease.take_over_orphans(other.take_over)
    assert other.taken == [77]


async def test_a_new_session_keeps_the_number(database: Database, two: tuple[Process, Process]) -> None:
    """What runs in this process continues under it."""
    one, _ = two
    number = one.lease.number
    before = await locks(database)
    lose_session(one.database)
    # Trying to take the lease would take it for a moment.
    async with asyncio.timeout(TIMEOUT):
        while (now := await locks(database)) == before or len(now) != len(before):
            await asyncio.sleep(0.01)
    assert {lock for _, lock in now} == {lock for _, lock in before}
    assert one.lease.number == number


async def test_a_number_that_was_taken_over_is_replaced(database: Database, two: tuple[Process, Process]) -> None:
    """Another process has its tasks."""
    one, other = two
    number = one.lease.number
    await give_work(database, number)
    has_another = asyncio.Event()

    async def take(taken: int) -> None:
        async with asyncio.timeout(TIMEOUT):
            while one.lease.number == number:
                await asyncio.sleep(0.01)
        has_another.set()

    lose_session(one.database)
    async with asyncio.timeout(TIMEOUT):
        while not has_another.is_set():
            await other.lease.take_over_orphans(take)
            if not has_another.is_set():
                lose_session(one.database)


async def test_closing_while_the_session_ends(database: Database, two: tuple[Process, Process]) -> None:
    """A lease that cannot be released any more does not prevent the stop."""
    one, _ = two
    await give_work(database, 77)
    at_it = asyncio.Event()

    async def take_for_ever(number: int) -> None:
        at_it.set()
        await asyncio.Event().wait()

    taking = asyncio.create_task(one.lease.take_over_orphans(take_for_ever))
    await at_it.wait()
    lose_session(one.database)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
