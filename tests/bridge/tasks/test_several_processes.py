"""The desk where a node has several processes: each counts, and one that is killed loses nothing."""

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


async def test_one_of_two_runners_begins(one: Process, database: Database, clock: Clock) -> None:
    """In whichever processes they are."""
    async with process(database, clock) as other:
        await one.tasks.submit(request())
        begun = await asyncio.gather(
            *(tasks.begin(KEY) for tasks in (one.tasks, other.tasks) for _ in range(5))
        )
        assert len({task.runner for task in begun if task is not None}) == 1
        assert (await other.task()).state is State.RUNNING


async def test_what_happens_in_another_process_counts(one: Process, database: Database, clock: Clock) -> None:
    """What this one remembers is out of date, and it finds that out."""
    async with process(database, clock) as other:
        await one.tasks.submit(request())
        await one.courier.delivered.get()
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
    one.courier.outcomes = [NotInThisProcess()]
    async with process(database, clock) as other:
        await one.tasks.submit(request())
        assert (await other.courier.delivered.get()).key == KEY
        assert await other.tasks.begin(KEY) is not None
        one.courier.has_agent = False
        await one.tasks.cancel(KEY, "alice")
        assert (await other.courier.cancelled.get()).key == KEY


async def test_a_task_waits_for_an_agent_that_is_attached_to_none(one: Process) -> None:
    """It is brought when the agent comes back."""
    # The sweep with which a process begins may come in between, and try as well.
    one.courier.outcomes = [NotInThisProcess()] * 10
    await one.tasks.submit(request())
    await one.courier.delivered.get()
    await one.settled()
    assert (await one.task()).due == {Due.DELIVER}
    one.courier.outcomes = []
    assert [task.key for task in await one.tasks.agent_attached(address("worker@here"))] == [KEY]
    await one.courier.delivered.get()
    await one.settled()
    assert (await one.task()).due == frozenset()


# ---- kill -9 -----------------------------------------------------------------------------------------


async def killed_after(one: Process, state: State) -> None:
    """The process is killed when the step into this state is committed, and before anything follows."""
    if state is State.ACCEPTED:
        one.stop_short()
    await one.tasks.submit(request())
    if state is State.ACCEPTED:
        return
    await one.courier.delivered.get()
    await one.settled()
    if state is State.RUNNING:
        one.stop_short()
    assert await one.tasks.begin(KEY) is not None
    await one.settled()
    if state is State.RUNNING:
        return
    one.stop_short()
    match state:
        case State.DONE:
            await one.tasks.finish(KEY, GOOD)
        case State.FAILED:
            await one.tasks.fail(KEY, TaskError(ErrorCode.AGENT_BUSY, ""))
        case State.CANCELLED:
            await one.tasks.cancel(KEY, "alice")
        case State.TIMED_OUT:
            await one.tasks.fail(KEY, TaskError(ErrorCode.TIMEOUT, ""))


async def test_killed_before_it_was_brought_it_is_brought(
    one: Process, database: Database, clock: Clock
) -> None:
    """Nothing is lost, and it runs once."""
    await killed_after(one, State.ACCEPTED)
    await one.kill()
    async with process(database, clock) as again:
        assert (await again.courier.delivered.get()).key == KEY
        assert await again.tasks.begin(KEY) is not None
        await again.tasks.finish(KEY, GOOD)
        assert (await again.requester.answered.get()).answer == GOOD


async def test_killed_after_it_was_brought_and_before_it_was_begun_it_is_brought_again(
    one: Process, database: Database, clock: Clock
) -> None:
    """The agent was in the process that was killed."""
    await one.tasks.submit(request())
    await one.courier.delivered.get()
    await one.settled()
    await one.kill()
    async with process(database, clock) as again:
        assert (await again.courier.delivered.get()).key == KEY


async def test_killed_while_it_ran_it_is_answered_and_not_run_again(
    one: Process, database: Database, clock: Clock
) -> None:
    """Whether it was done nobody knows."""
    await killed_after(one, State.RUNNING)
    await one.kill()
    async with process(database, clock) as again:
        answered = await again.requester.answered.get()
        assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE
        assert answered.answer is not None
        assert answered.answer.metadata["interrupted"] is True
        await again.settled()
        assert again.courier.delivered.empty()
        assert await again.tasks.begin(KEY) is None


@pytest.mark.parametrize("state", sorted(FINAL))
async def test_killed_before_it_was_answered_it_is_answered(
    one: Process, database: Database, clock: Clock, state: State
) -> None:
    """Whatever it came to; and an agent that was to stop is told."""
    await killed_after(one, state)
    await one.kill()
    async with process(database, clock) as again:
        answered = await again.requester.answered.get()
        assert answered.state is state
        if state is State.CANCELLED:
            await again.courier.cancelled.get()
        await again.settled()
        assert (await again.task()).due == frozenset()
    async with process(database, clock) as third:
        await third.tasks._sweep.sweep()
        await third.settled()
        assert third.requester.answered.empty()


async def test_killed_while_it_waited_it_goes_on_waiting(
    one: Process, database: Database, clock: Clock
) -> None:
    """And comes next, since what ran before it has ended with the process."""
    one.settings["worker"] = AgentSettings(queue_length=5)
    await one.tasks.submit(request("a"))
    await one.run("a")
    await one.tasks.submit(request("b"))
    await one.kill()
    async with process(database, clock) as again:
        again.settings["worker"] = AgentSettings(queue_length=5)
        assert (await again.requester.answered.get()).key.request_id == "a"
        assert (await again.courier.delivered.get()).key.request_id == "b"


async def test_killed_before_the_next_of_a_queue_was_called_it_is_called(
    one: Process, database: Database, clock: Clock
) -> None:
    """That an agent has room is found by looking, and need not be told."""
    one.settings["worker"] = AgentSettings(queue_length=5)
    await one.tasks.submit(request("a"))
    await one.tasks.submit(request("b"))
    await one.run("a")
    await one.settled()
    one.stop_short()
    await one.tasks.finish(TaskKey("living", "a"), GOOD)
    await one.kill()
    async with process(database, clock) as again:
        assert (await again.courier.delivered.get()).key.request_id == "b"


async def test_killed_while_another_node_runs_it_its_answer_is_awaited(
    one: Process, database: Database, clock: Clock
) -> None:
    """Until its time is over."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.tasks.progress(KEY, {})
    await one.settled()
    await one.kill()
    async with process(database, clock) as again:
        await again.tasks._sweep.sweep()
        await again.settled()
        assert (await again.task()).state is State.RUNNING
        assert again.courier.delivered.empty()
        clock.advance(300_000)
        again.tasks._timers._moved.set()
        assert error_code((await again.requester.answered.get()).answer) is ErrorCode.TIMEOUT


async def test_a_runner_that_outlives_the_process_keeps_its_task(
    one: Process, database: Database, clock: Clock
) -> None:
    """It has a lease of its own; when that ends, so does the task."""
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


async def test_a_process_that_lives_keeps_its_tasks(one: Process, database: Database, clock: Clock) -> None:
    """Another one that begins does not take them over."""
    await one.tasks.submit(request())
    await one.courier.delivered.get()
    await one.run()
    await one.settled()
    async with process(database, clock) as other:
        await other.tasks._sweep.sweep()
        await other.settled()
        assert (await one.task()).state is State.RUNNING
        assert other.courier.delivered.empty()
        await one.kill()
        await other.tasks._sweep.sweep()
        assert error_code((await other.requester.answered.get()).answer) is ErrorCode.NODE_UNREACHABLE


async def test_agents_that_were_lost_while_nobody_was_there(
    one: Process, database: Database, clock: Clock
) -> None:
    """Their tasks fail when somebody is, and need not wait for their time."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.settled()
    await one.kill()
    async with database.transaction() as connection:
        await connection.execute(
            "UPDATE agents SET gone_at = 5, gone_reason = 'timeout' WHERE node_id = 'kitchen'"
        )
        await connection.execute("UPDATE agent_nodes SET silent_since = 5 WHERE node_id = 'kitchen'")
    async with process(database, clock) as again:
        answered = await again.requester.answered.get()
        assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE
