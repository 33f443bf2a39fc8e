"""The queues of this node's agents."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.agent import StatusInput
from bridge.tasks.answer import Answer
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State
from storage.database import Database
from tests.support.agents import Clock, registered
from tests.support.tasks import Process, process, request

GOOD = Answer(True, "done", 0)


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Process]:
    async with process(database) as one:
        await one.routes.update([registered("worker@here"), registered("other@here")])
        one.settings["worker"] = AgentSettings(queue_length=100)
        yield one


async def finish(one: Process, name: str) -> None:
    await one.run(name)
    await one.tasks.finish(TaskKey("living", name), GOOD)


async def test_queued_tasks_start_in_order(one: Process) -> None:
    """One after the other."""
    names = [f"r{number}" for number in range(5)]
    for name in names:
        await one.tasks.submit(request(name))
    assert [(await one.task(name)).state for name in names] == [State.ACCEPTED, *[State.QUEUED] * 4]
    for name in names:
        assert (await one.delivery.delivered.get()).key.request_id == name
        await finish(one, name)
    assert [(await one.requester.answered.get()).key.request_id for _ in names] == names


async def test_a_task_queued_while_the_last_one_ends_is_started(database: Database) -> None:
    """The process that ended the last task did not see the queued one, which was not committed yet. So the
    process that queued it checks again."""
    async with process(database, sweep_interval=3_600.0) as one:
        await one.routes.update([registered("worker@here")])
        one.settings["worker"] = AgentSettings(queue_length=100)
        looked = asyncio.Event()
        advance = one.tasks._queues._advance

        async def advance_and_tell(address: AgentAddress) -> None:
            await advance(address)
            looked.set()

        one.tasks._queues._advance = advance_and_tell  # type: ignore[method-assign] # to know when it has
        await one.tasks.submit(request("a"))
        await one.run("a")
        async with database.transaction() as connection:
            submitted = await one.tasks.accept(connection, request("b"))
            assert submitted.task is not None
            assert submitted.task.state is State.QUEUED
            await one.tasks.finish(TaskKey("living", "a"), GOOD)
            await looked.wait()
        one.tasks.committed(submitted)
        assert [(await one.delivery.delivered.get()).key.request_id for _ in range(2)] == ["a", "b"]


async def test_a_queue_that_is_empty_is_not_checked(one: Process) -> None:
    """If the agent started no task, it was not reported busy: the end of its task needs no query."""
    looked: asyncio.Queue[AgentAddress] = asyncio.Queue()
    advance = one.tasks._queues._advance

    async def advance_and_tell(address: AgentAddress) -> None:
        await advance(address)
        looked.put_nowait(address)

    one.tasks._queues._advance = advance_and_tell  # type: ignore[method-assign] # to know when it has
    await one.tasks.submit(request("a"))
    await one.tasks.cancel(TaskKey("living", "a"), "alice")
    for name in ("b", "c"):
        await one.tasks.submit(request(name, "other@here"))
    one.settings["other"] = AgentSettings(queue_length=1)
    await one.tasks.submit(request("d", "other@here"))
    assert str(await looked.get()) == "other@here"
    assert looked.empty()


async def test_a_queued_task_is_started_by_the_process_that_ends_the_last_one(one: Process, database: Database) -> None:
    """That process was notified, and checks the queue although the task had not started."""
    told = asyncio.Event()
    waits = one.tasks._queues.mark_queued

    def waits_and_tell(address: AgentAddress) -> None:
        waits(address)
        told.set()

    one.tasks._queues.mark_queued = waits_and_tell  # type: ignore[method-assign] # to know when it has
    async with process(database, one.clock, sweep_interval=3_600.0) as other:
        other.settings["worker"] = AgentSettings(queue_length=100)
        await one.tasks.submit(request("a"))
        waiting = await other.tasks.submit(request("b"))
        assert waiting.task is not None
        assert waiting.task.state is State.QUEUED
        await told.wait()
        await one.tasks.cancel(TaskKey("living", "a"), "alice")
        while (await one.task("b")).state is State.QUEUED:
            await asyncio.sleep(0.01)


async def test_an_agent_without_tasks_is_reported_idle(database: Database) -> None:
    """Also if the task that ended last had not started, but an earlier one had."""
    said: list[StatusInput] = []

    class Statuses:
        def apply(self, agent: AgentAddress, message: StatusInput, task_id: str | None = None) -> None:
            said.append(message)

    async with process(database, statuses=Statuses(), sweep_interval=3_600.0) as one:
        await one.routes.update([registered("worker@here")])
        one.settings["worker"] = AgentSettings(parallel=2)
        for name in ("a", "b"):
            await one.tasks.submit(request(name))
        await finish(one, "a")
        await one.tasks.cancel(TaskKey("living", "b"), "alice")
        while said[-1] is not StatusInput.COMPLETE:
            await asyncio.sleep(0.01)


async def test_a_queued_task_can_be_cancelled(one: Process) -> None:
    """The next one takes its place."""
    for name in ("a", "b", "c"):
        await one.tasks.submit(request(name))
    await one.tasks.cancel(TaskKey("living", "b"), "alice")
    await finish(one, "a")
    assert [(await one.delivery.delivered.get()).key.request_id for _ in range(2)] == ["a", "c"]
    assert one.delivery.cancelled.empty(), "the agent never had it"


async def test_an_agent_gets_no_more_tasks_than_its_limit(one: Process, database: Database) -> None:
    """However many requests arrive, in any process."""
    clock = one.clock
    async with process(database, clock) as other:
        other.settings["worker"] = one.settings["worker"] = AgentSettings(parallel=3, queue_length=100)
        services = [one.tasks, other.tasks]
        await asyncio.gather(*(services[number % 2].submit(request(f"r{number}")) for number in range(20)))
        states = [(await one.task(f"r{number}")).state for number in range(20)]
        assert sorted(states) == sorted([State.ACCEPTED] * 3 + [State.QUEUED] * 17)


async def test_each_agent_has_its_own_queue(one: Process) -> None:
    """A busy agent does not delay others."""
    await one.tasks.submit(request("a"))
    await one.tasks.submit(request("b", "other@here"))
    assert (await one.task("b")).state is State.ACCEPTED


async def test_the_tasks_of_an_agent_without_a_limit_are_not_counted(one: Process) -> None:
    """Nothing is locked for it."""
    one.settings["worker"] = AgentSettings(parallel=None)
    for number in range(30):
        await one.tasks.submit(request(f"r{number}"))
        assert (await one.task(f"r{number}")).state is State.ACCEPTED


async def test_the_sweep_checks_queues(one: Process, database: Database) -> None:
    """In any process."""
    clock = Clock()
    await one.tasks.submit(request("a"))
    await one.tasks.submit(request("b"))
    await one.run("a")
    await one.settled()
    one.skip_effects()
    await one.tasks.finish(TaskKey("living", "a"), GOOD)
    async with process(database, clock) as other:
        other.settings["worker"] = AgentSettings(queue_length=100)
        assert (await other.delivery.delivered.get()).key.request_id == "b"


async def test_a_lower_limit_applies_to_new_tasks_only(one: Process) -> None:
    """Queued and running tasks stay."""
    one.settings["worker"] = AgentSettings(parallel=2, queue_length=100)
    for name in ("a", "b", "c"):
        await one.tasks.submit(request(name))
    one.settings["worker"] = AgentSettings()
    await finish(one, "a")
    await one.tasks._queues._advance(request().to_address)
    assert (await one.task("c")).state is State.QUEUED
    await finish(one, "b")
    while (await one.task("c")).state is State.QUEUED:
        await asyncio.sleep(0.01)
