"""The task service in several processes of a node. A process that is killed loses nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import Due
from bridge.tasks.ports import NotInThisProcess
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.task import FINAL, State
from storage.database import Database
from tests.support.agents import NOW, Clock, address, registered
from tests.support.tasks import Process, error_code, process, request

KEY = TaskKey("living", "req-1")
GOOD = Answer(True, "done", 0, {"tokens_used": 7})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def one(database: Database, clock: Clock) -> AsyncIterator[Process]:
    async with process(database, clock) as one:
        await one.routes.update([registered("worker@here"), registered("worker@kitchen")])
        yield one


# ---- several processes -------------------------------------------------------------------------------


async def test_one_of_two_runners_starts_a_task(one: Process, database: Database, clock: Clock) -> None:
    """In any processes."""
    async with process(database, clock) as other:
        await one.tasks.submit(request())
        begun = await asyncio.gather(*(tasks.begin(KEY) for tasks in (one.tasks, other.tasks) for _ in range(5)))
        assert len({task.runner for task in begun if task is not None}) == 1
        assert (await other.task()).state is State.RUNNING


async def test_a_step_of_another_process_is_noticed(one: Process, database: Database, clock: Clock) -> None:
    """The cached task is out of date, and is loaded again."""
    async with process(database, clock) as other:
        await one.tasks.submit(request())
        await one.delivery.delivered.get()
        assert await other.tasks.begin(KEY, runner="remote-1") is not None
        assert await one.tasks.begin(KEY) is None
        finished = await one.tasks.finish(KEY, GOOD)
        assert finished is not None
        assert finished.state is State.DONE
        assert await other.tasks.finish(KEY, replace(GOOD, output="another")) is not None
        assert (await other.task()).answer == GOOD


async def test_a_task_reaches_an_agent_that_is_attached_to_another_process(
    one: Process, database: Database, clock: Clock
) -> None:
    """And so does its cancellation."""
    one.delivery.outcomes = [NotInThisProcess()]
    async with process(database, clock) as other:
        await one.tasks.submit(request())
        assert (await other.delivery.delivered.get()).key == KEY
        assert await other.tasks.begin(KEY) is not None
        one.delivery.has_agent = False
        await one.tasks.cancel(KEY, "alice")
        assert (await other.delivery.cancelled.get()).key == KEY


async def test_a_task_of_a_detached_agent_stays_due(one: Process) -> None:
    """It is delivered when the agent attaches itself again."""
    # The first sweep of a process may run in between and try as well.
    one.delivery.outcomes = [NotInThisProcess()] * 10
    await one.tasks.submit(request())
    await one.delivery.delivered.get()
    await one.settled()
    assert (await one.task()).due == {Due.DELIVER}
    one.delivery.outcomes = []
    assert [task.key for task in await one.tasks.agent_attached(address("worker@here"))] == [KEY]
    await one.delivery.delivered.get()
    await one.settled()
    assert (await one.task()).due == frozenset()


# ---- kill -9 -----------------------------------------------------------------------------------------


async def killed_after(one: Process, state: State) -> None:
    """A process that is killed when the step into this state is committed, before any effect."""
    if state is State.ACCEPTED:
        one.skip_effects()
    await one.tasks.submit(request())
    if state is State.ACCEPTED:
        return
    await one.delivery.delivered.get()
    await one.settled()
    if state is State.RUNNING:
        one.skip_effects()
    assert await one.tasks.begin(KEY) is not None
    await one.settled()
    if state is State.RUNNING:
        return
    one.skip_effects()
    match state:
        case State.DONE:
            await one.tasks.finish(KEY, GOOD)
        case State.FAILED:
            await one.tasks.fail(KEY, TaskError(ErrorCode.AGENT_BUSY, ""))
        case State.CANCELLED:
            await one.tasks.cancel(KEY, "alice")
        case State.TIMED_OUT:
            await one.tasks.fail(KEY, TaskError(ErrorCode.TIMEOUT, ""))


async def test_killed_before_the_delivery(one: Process, database: Database, clock: Clock) -> None:
    """The task is delivered, and runs once."""
    await killed_after(one, State.ACCEPTED)
    await one.kill()
    async with process(database, clock) as again:
        assert (await again.delivery.delivered.get()).key == KEY
        assert await again.tasks.begin(KEY) is not None
        await again.tasks.finish(KEY, GOOD)
        assert (await again.requester.answered.get()).answer == GOOD


async def test_killed_after_the_delivery_and_before_the_start(one: Process, database: Database, clock: Clock) -> None:
    """The task is delivered again: the agent was in the process that was killed."""
    await one.tasks.submit(request())
    await one.delivery.delivered.get()
    await one.settled()
    await one.kill()
    async with process(database, clock) as again:
        assert (await again.delivery.delivered.get()).key == KEY


async def test_killed_while_the_task_ran(one: Process, database: Database, clock: Clock) -> None:
    """The task is answered and not run again: whether it was done is not known."""
    await killed_after(one, State.RUNNING)
    await one.kill()
    async with process(database, clock) as again:
        answered = await again.requester.answered.get()
        assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE
        assert answered.answer is not None
        assert answered.answer.metadata["interrupted"] is True
        await again.settled()
        assert again.delivery.delivered.empty()
        assert await again.tasks.begin(KEY) is None


@pytest.mark.parametrize("state", sorted(FINAL))
async def test_killed_before_the_answer(one: Process, database: Database, clock: Clock, state: State) -> None:
    """The answer is sent, and a running agent is told to stop."""
    await killed_after(one, state)
    await one.kill()
    async with process(database, clock) as again:
        answered = await again.requester.answered.get()
        assert answered.state is state
        if state is State.CANCELLED:
            await again.delivery.cancelled.get()
        await again.settled()
        assert (await again.task()).due == frozenset()
    async with process(database, clock) as third:
        await third.tasks._sweep.sweep()
        await third.settled()
        assert third.requester.answered.empty()


async def test_killed_while_the_task_was_queued(one: Process, database: Database, clock: Clock) -> None:
    """The task stays queued, and is next: the running task has ended with the process."""
    one.settings["worker"] = AgentSettings(queue_length=5)
    await one.tasks.submit(request("a"))
    await one.run("a")
    await one.tasks.submit(request("b"))
    await one.kill()
    async with process(database, clock) as again:
        again.settings["worker"] = AgentSettings(queue_length=5)
        assert (await again.requester.answered.get()).key.request_id == "a"
        assert (await again.delivery.delivered.get()).key.request_id == "b"


async def test_killed_before_the_next_queued_task_started(one: Process, database: Database, clock: Clock) -> None:
    """The sweep checks the queue without a notification."""
    one.settings["worker"] = AgentSettings(queue_length=5)
    await one.tasks.submit(request("a"))
    await one.tasks.submit(request("b"))
    await one.run("a")
    await one.settled()
    one.skip_effects()
    await one.tasks.finish(TaskKey("living", "a"), GOOD)
    await one.kill()
    async with process(database, clock) as again:
        assert (await again.delivery.delivered.get()).key.request_id == "b"


async def test_killed_while_another_node_runs_the_task(one: Process, database: Database, clock: Clock) -> None:
    """The answer is awaited until the deadline."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.tasks.progress(KEY, {})
    await one.settled()
    await one.kill()
    async with process(database, clock) as again:
        await again.tasks._sweep.sweep()
        await again.settled()
        assert (await again.task()).state is State.RUNNING
        assert again.delivery.delivered.empty()
        clock.advance(300_000)
        again.tasks._timers._moved.set()
        assert error_code((await again.requester.answered.get()).answer) is ErrorCode.TIMEOUT


async def test_a_runner_that_outlives_the_process_keeps_its_task(
    one: Process, database: Database, clock: Clock
) -> None:
    """It has a lease of its own; when that expires, the task ends."""
    await one.tasks.submit(request())
    task = await one.tasks.begin(KEY, runner="agent-7", lease_until=NOW + 60_000)
    assert task is not None
    await one.kill()
    async with process(database, clock) as again:
        await again.tasks._sweep.sweep()
        await again.settled()
        assert (await again.task()).state is State.RUNNING
        renewed = await again.tasks.renew(KEY, "agent-7", NOW + 90_000)
        assert renewed is not None
        clock.advance(60_000)
        again.tasks._timers._moved.set()
        await again.tasks._timers._try(KEY)
        assert (await again.task()).state is State.RUNNING
        clock.advance(30_000)
        again.tasks._timers._moved.set()
        answered = await again.requester.answered.get()
        assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE


async def test_a_running_process_keeps_its_tasks(one: Process, database: Database, clock: Clock) -> None:
    """Another process that starts does not take them over."""
    await one.tasks.submit(request())
    await one.delivery.delivered.get()
    await one.run()
    await one.settled()
    async with process(database, clock) as other:
        await other.tasks._sweep.sweep()
        await other.settled()
        assert (await one.task()).state is State.RUNNING
        assert other.delivery.delivered.empty()
        await one.kill()
        await other.tasks._sweep.sweep()
        assert error_code((await other.requester.answered.get()).answer) is ErrorCode.NODE_UNREACHABLE


async def test_agents_that_were_lost_while_no_process_ran(one: Process, database: Database, clock: Clock) -> None:
    """Their tasks fail when a process starts, before their deadlines."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.settled()
    await one.kill()
    async with database.transaction() as connection:
        await connection.execute("UPDATE agents SET gone_at = 5, gone_reason = 'timeout' WHERE node_id = 'kitchen'")
        await connection.execute("UPDATE agent_nodes SET silent_since = 5 WHERE node_id = 'kitchen'")
    async with process(database, clock) as again:
        answered = await again.requester.answered.get()
        assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE
