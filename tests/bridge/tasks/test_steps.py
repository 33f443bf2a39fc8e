"""Steps of tasks: load, decide, store, start the effects."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.agent import StatusInput
from bridge.tasks.answer import Answer
from bridge.tasks.messages import Progress, Result, RunnerLost, Start
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State, Step, receive
from storage.database import Database
from tests.support.agents import NOW, address, registered
from tests.support.tasks import Process, process, request

KEY = TaskKey("living", "req-1")
GOOD = Answer(True, "done", 0)


class Duty:
    def __init__(self) -> None:
        self.told: list[tuple[str, StatusInput, str | None]] = []

    def apply(self, agent: AgentAddress, message: StatusInput, task_id: str | None = None) -> None:
        self.told.append((str(agent), message, task_id))


@pytest.fixture
def duty() -> Duty:
    return Duty()


@pytest.fixture
async def one(database: Database, duty: Duty) -> AsyncIterator[Process]:
    async with process(database, statuses=duty) as one:
        await one.routes.update([registered("worker@here"), registered("worker@kitchen")])
        yield one


async def test_a_step_of_an_outdated_task_is_decided_again(one: Process) -> None:
    """Another process has stored a step meanwhile. The outcome is the same as with the current task."""
    await one.tasks.submit(request())
    task = await one.task()
    step = receive(task, Start("elsewhere"), NOW)
    one.tasks._store.cache(task)
    async with one.database.transaction() as connection:
        assert await one.tasks._store.store_step(connection, step.task, 99)
    one.tasks._store.cache(task)
    assert one.tasks._store.cached(KEY) == task
    finished = await one.tasks._steps.apply(KEY, Result(GOOD))
    assert finished is not None
    assert (finished.state, finished.runner) == (State.DONE, "elsewhere")


async def test_a_message_is_not_dropped_because_of_an_outdated_task(one: Process) -> None:
    """By the cached task the work had not started, and the answer would be dropped."""
    await one.tasks.submit(request())
    old = await one.task()
    assert await one.tasks.begin(KEY, runner="elsewhere") is not None
    one.tasks._store.evict(KEY)
    one.tasks._store.cache(old)
    assert one.tasks._store.cached(KEY) == old
    await one.tasks._steps.apply(KEY, Result(GOOD))
    assert (await one.task()).state is State.DONE
    assert one.observer.drops == []


async def test_concurrent_steps_are_serialised(one: Process) -> None:
    """None is lost: all progress is stored, and one of the answers."""
    await one.tasks.submit(request())
    await one.run()
    reports = [one.tasks._steps.apply(KEY, Progress({"n": number})) for number in range(20)]
    answers = [one.tasks._steps.apply(KEY, Result(GOOD)) for _ in range(5)]
    await asyncio.gather(*reports, *answers)
    task = await one.task()
    assert task.state is State.DONE
    dropped = sum(drop.message == "progress" for _, drop in one.observer.drops)
    assert len(await one.tasks.progress_of(task)) + dropped == 20
    assert sum(drop.message == "result" for _, drop in one.observer.drops) == 4


async def test_an_agent_of_this_node_is_reported_busy_and_idle(one: Process, duty: Duty) -> None:
    """Other nodes report the status of their agents themselves."""
    await one.tasks.submit(request("there", "worker@kitchen"))
    await one.tasks.progress(TaskKey("living", "there"), {})
    await one.tasks.submit(request())
    await one.run()
    await one.tasks.finish(KEY, GOOD)
    while len(duty.told) < 2:
        await asyncio.sleep(0.01)
    assert duty.told == [("worker@here", StatusInput.START, "task-req-1"), ("worker@here", StatusInput.COMPLETE, None)]


async def test_a_message_of_another_agent_is_dropped(one: Process) -> None:
    """It is written to the audit log."""
    await one.tasks.submit(request())
    assert await one.tasks._steps.apply(KEY, Start("x"), by=address("other@here")) is None
    [(name, drop)] = one.observer.drops
    assert (name, drop.message, drop.reason) == ("req-1", "start", "the task is not addressed to other@here")


async def test_a_task_that_is_taken_over_has_a_new_version(one: Process) -> None:
    """Even without another change, so that the previous process cannot store a step."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.settled()
    task = await one.task()
    async with one.database.transaction() as connection:
        same = await one.tasks._steps.take_over(connection, task, None)
        assert same is not None
        assert same.task.version == task.version + 1
        again = await one.tasks._steps.take_over(connection, same.task, RunnerLost())
        assert again is not None
        assert again.task.version == task.version + 2
        assert await one.tasks._steps.take_over(connection, task, None) is None
        assert not await one.tasks._steps.store(connection, task, Step(same.task))


async def test_the_observer_gets_progress(one: Process) -> None:
    """Every message that was stored, and none that came too late."""
    heard: list[tuple[TaskKey, object]] = []
    one.observer.progress = lambda task, content: heard.append((task.key, content))  # type: ignore[attr-defined]
    await one.tasks.submit(request())
    await one.tasks.progress(KEY, {"message": "too early"})
    await one.run()
    await one.tasks.progress(KEY, {"message": "halfway"})
    await one.tasks.finish(KEY, GOOD)
    await one.tasks.progress(KEY, {"message": "too late"})
    assert heard == [(KEY, {"message": "halfway"})]
