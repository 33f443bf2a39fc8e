"""What others have left is found."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.messages import Accept
from bridge.tasks.request import TaskKey
from bridge.tasks.store import PAGE_SIZE, row_of
from bridge.tasks.sweep import PRUNE_LIMIT, RETENTION_MS, runner_name
from bridge.tasks.task import State, Task, receive
from storage.agents import tasks
from storage.database import Database
from tests.support.agents import NOW, Clock, registered
from tests.support.postgres import lose_session
from tests.support.tasks import Process, process, request

KEY = TaskKey("living", "req-1")
GOOD = Answer(True, "done", 0)


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Process]:
    async with process(database) as one:
        await one.routes.update([registered("worker@here"), registered("worker@kitchen")])
        yield one


def test_a_runner_is_named_after_its_process() -> None:
    """By that its tasks are told from those that others run."""
    assert runner_name(7) == "desk-7"


async def test_many_tasks_of_a_desk_that_is_no_more(one: Process) -> None:
    """Page by page, all of them."""
    count = PAGE_SIZE + 10
    async with one.database.transaction() as connection:
        for number in range(count):
            task = Task(request(f"r{number}", "worker@kitchen"), NOW, NOW + 9_999, elsewhere=True)
            await tasks.accept_task(connection, row_of(receive(task, Accept(), NOW).task, 77))
    await one.tasks._sweep.sweep()
    await one.settled()
    delivered = {one.courier.delivered.get_nowait().key for _ in range(one.courier.delivered.qsize())}
    assert len(delivered) == count
    async with one.database.transaction() as connection:
        assert await tasks.list_processes(connection) == [one.tasks._lease.number]


async def test_what_this_process_does_not_know_of_is_done(one: Process) -> None:
    """A commit was kept although its connection was lost, so that nobody went on."""
    one.stop_short()
    await one.tasks.submit(request())
    del one.tasks._steps.committed  # type: ignore[method-assign]
    assert one.courier.delivered.empty()
    await one.tasks._sweep.sweep()
    assert (await one.courier.delivered.get()).key == KEY
    assert one.tasks._timers.live("living") == 1


async def test_it_looks_again_when_the_session_was_lost(one: Process) -> None:
    """Whatever was told meanwhile was missed."""
    await one.tasks._sweep.sweep()
    one.stop_short()
    await one.tasks.submit(request())
    del one.tasks._steps.committed  # type: ignore[method-assign]
    lose_session(one.database)
    assert (await one.courier.delivered.get()).key == KEY


async def test_answers_are_forgotten_after_a_week(one: Process, database: Database) -> None:
    """Not earlier, for requests may be repeated."""
    await one.tasks.submit(request())
    await one.run()
    await one.tasks.finish(KEY, GOOD)
    await one.settled()
    one.clock.advance(RETENTION_MS)
    await one.tasks._sweep.sweep()
    assert (await one.task()).state is State.DONE
    one.clock.advance(1)
    await one.tasks._sweep.sweep()
    assert await one.tasks.task(KEY) is None
    assert PRUNE_LIMIT > 0


async def test_it_goes_on_after_a_failure(database: Database) -> None:
    """The sweep is supervised."""
    async with process(database, Clock(), sweep_interval=0.02) as one:
        await one.routes.update([registered("worker@here")])
        lease = one.tasks._lease
        failed = asyncio.Event()

        async def fail(take_over: object) -> None:
            failed.set()
            del lease.take_over_orphans  # type: ignore[method-assign]
            raise KeyError("broken")

        lease.take_over_orphans = fail  # type: ignore[method-assign]
        await failed.wait()
        one.stop_short()
        await one.tasks.submit(request())
        del one.tasks._steps.committed  # type: ignore[method-assign]
        assert (await one.courier.delivered.get()).received_at == NOW
