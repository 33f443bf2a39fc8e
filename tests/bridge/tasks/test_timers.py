"""The deadlines of tasks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

from bridge.clock import now_ms
from bridge.tasks.messages import Tick
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State, Task
from bridge.tasks.timers import RETRY_MS, TaskTimers
from storage.concurrency import BackgroundTasks
from tests.support.agents import Clock
from tests.support.tasks import request


def task(name: str, deadline: int, node: str = "living") -> Task:
    return Task(request(key=TaskKey(node, name)), 0, deadline)


class Ticks:
    def __init__(self) -> None:
        self.keys: asyncio.Queue[str] = asyncio.Queue()
        self.failures = 0
        self.reports: list[str] = []

    async def apply(self, key: TaskKey, message: Tick) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.keys.put_nowait(key.request_id)

    def report(self, sentence: str, error: BaseException | None) -> None:
        self.reports.append(sentence)


@contextlib.asynccontextmanager
async def running(acks: Ticks, clock: Clock | None = None) -> AsyncIterator[TaskTimers]:
    background = BackgroundTasks()
    timers = TaskTimers(now_ms=clock or now_ms, background=background, report=acks.report)
    timers.start(acks)  # type: ignore[arg-type]
    try:
        yield timers
    finally:
        await background.close()


async def test_each_task_gets_a_tick_at_its_deadline() -> None:
    """In the order of the deadlines, also of those that are set while the timer sleeps."""
    acks = Ticks()
    async with running(acks) as timers:
        at = now_ms()
        timers.watch(task("never", at + 10**9))
        await asyncio.sleep(0)
        timers.watch(task("b", at + 40))
        timers.watch(task("a", at + 20))
        timers.watch(task("gone", at + 10))
        timers.watch(replace(task("gone", at + 10), state=State.DONE, finished_at=1))
        assert [await acks.keys.get() for _ in range(2)] == ["a", "b"]
        assert timers.live("living") == 1


async def test_a_later_deadline_does_not_wake_the_timer() -> None:
    """Most tasks end before their deadline: it is checked when the earlier one expires."""
    clock, acks = Clock(), Ticks()
    async with running(acks, clock) as timers:
        timers.watch(task("gone", clock() + 50))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not timers._moved.is_set(), "it sleeps now"
        timers.watch(replace(task("gone", clock() + 50), state=State.DONE, finished_at=1))
        timers.watch(task("a", clock() + 100))
        assert not timers._moved.is_set()
        clock.advance(100)
        assert await acks.keys.get() == "a"


async def test_a_tick_that_fails_is_retried() -> None:
    """A second later, without delaying others."""
    clock, acks = Clock(), Ticks()
    acks.failures = 1
    async with running(acks, clock) as timers:
        timers.watch(task("a", clock()))
        timers.watch(task("b", clock()))
        assert await acks.keys.get() == "b"
        assert len(acks.reports) == 1
        clock.advance(RETRY_MS)
        timers.watch(task("c", clock()))
        assert sorted([await acks.keys.get(), await acks.keys.get()]) == ["a", "c"]


async def test_live_tasks_are_counted_by_requesting_node() -> None:
    """Each once, however often it is watched."""
    timers = TaskTimers(now_ms=Clock(), background=BackgroundTasks(), report=lambda sentence, error: None)
    for name in ("a", "b", "a"):
        timers.watch(task(name, 10**13))
    timers.watch(task("a", 10**13, "attic"))
    assert (timers.live("living"), timers.live("attic"), timers.live("cellar")) == (2, 1, 0)
    assert timers.live_total() == 3
    ended = replace(task("a", 10**13), state=State.DONE, finished_at=1)
    timers.watch(ended)
    timers.watch(ended)
    assert timers.live("living") == 1
    assert list(timers._live) == ["living", "attic"]
    timers.watch(replace(task("a", 10**13, "attic"), state=State.FAILED, finished_at=1))
    assert list(timers._live) == ["living"], "what is zero is not kept"
