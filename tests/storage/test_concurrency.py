"""Background tasks, locks by key, shared executions and uninterrupted threads."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from storage.concurrency import RESTARTS, BackgroundTasks, KeyedLock, SingleFlight, uninterrupted
from storage.errors import LocalError


@pytest.fixture
async def tasks() -> AsyncIterator[BackgroundTasks]:
    group = BackgroundTasks()
    yield group
    await group.close()


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.concurrency.MIN_PAUSE", 0.0)


def restarts(name: str) -> float:
    return RESTARTS.labels(name)._value.get()


async def test_a_loop_is_called_again_after_it_returns(tasks: BackgroundTasks) -> None:
    """Until the group is closed."""
    calls: asyncio.Queue[None] = asyncio.Queue()
    tasks.supervise("calls", lambda: calls.put(None))
    for _ in range(3):
        await calls.get()
    await tasks.close()
    left = calls.qsize()
    await asyncio.sleep(0)
    assert calls.qsize() == left


async def test_a_loop_waits_between_calls(tasks: BackgroundTasks) -> None:
    """For `every` seconds."""
    calls: asyncio.Queue[None] = asyncio.Queue()
    tasks.supervise("calls", lambda: calls.put(None), every=3600.0)
    await calls.get()
    await asyncio.sleep(0)
    assert calls.empty()


@pytest.mark.parametrize("error", [ValueError("broken"), LocalError("Broken.", "Mend it."), asyncio.CancelledError()])
async def test_a_failed_loop_is_reported_and_restarted(
    tasks: BackgroundTasks, no_pause: None, error: BaseException
) -> None:
    """Also if a task that it awaited was cancelled."""
    errors = [error]
    recovered = asyncio.Event()

    async def loop() -> None:
        if errors:
            raise errors.pop()
        recovered.set()
        await asyncio.Event().wait()

    before = restarts("fragile")
    with capture_logs() as logs:
        tasks.supervise("fragile", loop)
        await recovered.wait()
    assert [entry["task"] for entry in logs] == ["fragile"]
    assert restarts("fragile") == before + 1


async def test_the_pause_after_a_failure_grows(tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """It doubles up to a limit; a successful call resets it."""
    monkeypatch.setattr("storage.concurrency.MIN_PAUSE", 0.001)
    monkeypatch.setattr("storage.concurrency.MAX_PAUSE", 0.004)
    fails = iter([True, True, True, True, False, True])
    ended = asyncio.Event()

    async def loop() -> None:
        try:
            failing = next(fails)
        except StopIteration:
            ended.set()
            await asyncio.Event().wait()
        if failing:
            raise ValueError("broken")

    with capture_logs() as logs:
        tasks.supervise("fragile", loop)
        await ended.wait()
    assert [entry["seconds"] for entry in logs] == [0.001, 0.002, 0.004, 0.004, 0.001]


async def test_a_failed_task_is_reported(tasks: BackgroundTasks) -> None:
    """With its name."""

    async def fail() -> None:
        raise ValueError("broken")

    with capture_logs() as logs:
        await asyncio.wait({tasks.spawn("fragile", fail())})
    (entry,) = logs
    assert (entry["task"], entry["log_level"]) == ("fragile", "error")


async def test_beyond_the_limit_tasks_are_dropped() -> None:
    """This is logged once, until there is capacity again."""
    tasks = BackgroundTasks(limit=1)
    release = asyncio.Event()
    with capture_logs() as logs:
        first = tasks.spawn("wait", release.wait())
        assert tasks.is_full
        refused = [tasks.spawn("wait", release.wait()) for _ in range(2)]
        await asyncio.wait(refused)
    assert all(task.cancelled() for task in refused)
    assert len(logs) == 1
    release.set()
    assert await first
    assert await tasks.spawn("wait", release.wait())


async def test_a_task_that_has_just_ended_does_not_count() -> None:
    """A caller that it has woken with its last step may spawn another one."""
    tasks = BackgroundTasks(limit=1)
    for _ in range(3):
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def wake(woken: "asyncio.Future[None]" = woken) -> None:
            woken.set_result(None)

        assert not tasks.is_full
        tasks.spawn("wake", wake())
        assert tasks.is_full
        await woken
    await tasks.close()


async def test_closing_cancels_all_tasks(tasks: BackgroundTasks) -> None:
    """Tasks spawned afterwards do not begin."""
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = tasks.spawn("wait", wait())
    await begun.wait()
    begun.clear()
    await tasks.close()
    assert running.cancelled()
    late = tasks.spawn("wait", wait())
    await asyncio.wait({late})
    assert late.cancelled()
    assert not begun.is_set()


async def test_closing_is_bounded_and_raises_nothing(tasks: BackgroundTasks) -> None:
    """A task that does not end is reported and abandoned; one that fails is reported."""
    begun: asyncio.Queue[None] = asyncio.Queue()
    release = asyncio.Event()

    async def stay() -> None:
        begun.put_nowait(None)
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async def fail() -> None:
        begun.put_nowait(None)
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("broken")

    staying = tasks.spawn("stays", stay())
    tasks.spawn("fails", fail())
    for _ in range(2):
        await begun.get()
    with capture_logs() as logs:
        await tasks.close(within=0.01)
    assert {entry["task"] for entry in logs} == {"stays", "fails"}
    release.set()
    await staying


async def test_a_task_may_close_its_own_group() -> None:
    """It does not wait for itself."""
    tasks = BackgroundTasks()
    tasks.supervise("wait", asyncio.Event().wait)
    await tasks.spawn("close", tasks.close())


async def test_draining_waits_for_spawned_tasks(tasks: BackgroundTasks) -> None:
    """For a limited time, and not for loops."""
    tasks.supervise("wait", asyncio.Event().wait)
    done: list[int] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(1)

    tasks.spawn("work", work())
    await tasks.drain(within=60.0)
    assert done == [1]
    tasks.spawn("wait", asyncio.Event().wait())
    await tasks.drain(within=0.0)


async def test_a_key_has_one_holder_at_a_time() -> None:
    """In the order of requests, independently of other keys."""
    locks: KeyedLock[str] = KeyedLock()
    order: list[int] = []

    async def hold(number: int) -> None:
        async with locks.hold("a"):
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    async with locks.hold("b"):
        await asyncio.gather(*(hold(number) for number in range(3)))
    assert order == [0, 0, 1, 1, 2, 2]


async def test_an_unused_key_is_removed() -> None:
    """Also if a waiting task was cancelled."""
    locks: KeyedLock[str] = KeyedLock()

    async def hold() -> None:
        async with locks.hold("a"):
            pass

    async with locks.hold("a"):
        waiting = asyncio.create_task(hold())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert len(locks) == 1
    del waiting
    assert len(locks) == 0


async def test_concurrent_calls_share_one_execution() -> None:
    """A later call starts a new one."""
    flight: SingleFlight[str, int] = SingleFlight()
    release = asyncio.Event()
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await release.wait()
        return asked

    waiting = [asyncio.create_task(flight.run("a", ask)) for _ in range(5)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert await flight.run("a", ask) == 2
    assert await flight.run("b", ask) == 3


async def test_cancelling_a_caller_does_not_cancel_the_execution() -> None:
    """The other callers still get the result."""
    flight: SingleFlight[str, str] = SingleFlight()
    asked, release = asyncio.Event(), asyncio.Event()

    async def ask() -> str:
        asked.set()
        await release.wait()
        return "answer"

    first = asyncio.create_task(flight.run("a", ask))
    await asked.wait()
    second = asyncio.create_task(flight.run("a", ask))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    release.set()
    assert await second == "answer"


async def test_a_failure_reaches_all_callers_and_is_not_cached() -> None:
    """asyncio does not log it either when all callers were cancelled."""
    flight: SingleFlight[str, str] = SingleFlight()

    async def fail() -> str:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await flight.run("a", fail)


async def test_closing_cancels_running_executions() -> None:
    """No task is left running."""
    flight: SingleFlight[str, None] = SingleFlight()
    asked = asyncio.Event()

    async def ask() -> None:
        asked.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(flight.run("a", ask))
    await asked.wait()
    await flight.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_uninterrupted_returns_the_result_or_raises_the_error() -> None:
    """Like a direct call."""
    assert await uninterrupted(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await uninterrupted(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancelled_caller_waits_for_the_thread(fails: bool) -> None:
    """Also if it is cancelled several times; the result is then discarded."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait()
        ended.set()
        if fails:
            raise ValueError("nobody looks at this")

    waiting = asyncio.create_task(uninterrupted(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
