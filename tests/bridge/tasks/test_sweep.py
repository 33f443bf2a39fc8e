"""The sweep finds what other processes have left."""

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
    """The name distinguishes its tasks from those of other runners."""
    assert runner_name(7) == "desk-7"


async def test_many_tasks_of_an_ended_process(one: Process) -> None:
    """All of them are taken over, page by page."""
    count = PAGE_SIZE + 10
    async with one.database.transaction() as connection:
        for number in range(count):
            task = Task(request(f"r{number}", "worker@kitchen"), NOW, NOW + 9_999, elsewhere=True)
            await tasks.accept_task(connection, row_of(receive(task, Accept(), NOW).task, 77))
    await one.tasks._sweep.sweep()
    await one.settled()
    delivered = {one.delivery.delivered.get_nowait().key for _ in range(one.delivery.delivered.qsize())}
    assert len(delivered) == count
    async with one.database.transaction() as connection:
        assert await tasks.list_processes(connection) == [one.tasks._lease.number]


async def test_due_effects_of_an_unknown_commit_are_started(one: Process) -> None:
    """The commit succeeded although the connection was lost, so its effects were not started."""
    one.skip_effects()
    await one.tasks.submit(request())
    del one.tasks._steps.committed  # type: ignore[method-assign]
    assert one.delivery.delivered.empty()
    await one.tasks._sweep.sweep()
    assert (await one.delivery.delivered.get()).key == KEY
    assert one.tasks._timers.live("living") == 1


async def test_a_lost_session_causes_a_sweep(one: Process) -> None:
    """Notifications may have been missed."""
    await one.tasks._sweep.sweep()
    one.skip_effects()
    await one.tasks.submit(request())
    del one.tasks._steps.committed  # type: ignore[method-assign]
    lose_session(one.database)
    assert (await one.delivery.delivered.get()).key == KEY


async def test_answers_are_pruned_after_a_week(one: Process, database: Database) -> None:
    """Not earlier, because requests may be repeated."""
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


async def test_the_sweep_continues_after_an_error(database: Database) -> None:
    """It is supervised."""
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
        one.skip_effects()
        await one.tasks.submit(request())
        del one.tasks._steps.committed  # type: ignore[method-assign]
        assert (await one.delivery.delivered.get()).received_at == NOW
