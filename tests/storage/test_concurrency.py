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
    """`every` seconds."""
    calls: asyncio.Queue[None] = asyncio.Queue()
    tasks.supervise("calls", lambda: calls.put(None), every=3600.0)
    await calls.get()
    await asyncio.sleep(0)
    assert calls.empty()


@pytest.mark.parametrize(
    "error", [ValueError("broken"), LocalError("Broken.", "Mend it."), asyncio.CancelledError()]
)
async def test_a_loop_that_fails_is_reported_and_started_again(
    tasks: BackgroundTasks, no_pause: None, error: BaseException
) -> None:
    """Also when something that it awaited was cancelled."""
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


async def test_the_pause_after_a_failure_grows(
    tasks: BackgroundTasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It doubles up to a limit, and a call that succeeds ends it."""
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


async def test_a_task_that_fails_is_reported(tasks: BackgroundTasks) -> None:
    """With its name."""

    async def fail() -> None:
        raise ValueError("broken")

    with capture_logs() as logs:
        await asyncio.wait({tasks.spawn("fragile", fail())})
    (entry,) = logs
    assert (entry["task"], entry["log_level"]) == ("fragile", "error")


async def test_beyond_the_limit_tasks_are_dropped() -> None:
    """Which is logged once, until there is room again."""
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


async def test_a_task_that_has_just_ended_leaves_room() -> None:
    """Whoever it has woken with its last step may spawn another one."""
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


async def test_closing_cancels_everything(tasks: BackgroundTasks) -> None:
    """What is spawned afterwards does not begin."""
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
    """A task that does not end is reported and left behind; one that fails is reported."""
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


async def test_draining_waits_for_what_was_spawned(tasks: BackgroundTasks) -> None:
    """For a bounded time, and not for loops."""
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


async def test_a_key_is_held_by_one_at_a_time() -> None:
    """In the order of the requests, and independently of other keys."""
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


async def test_a_key_is_forgotten_once_nothing_uses_it() -> None:
    """Also when the wait for it was cancelled."""
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


async def test_those_who_ask_meanwhile_get_the_same_answer() -> None:
    """And whoever asks after that asks anew."""
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


async def test_who_is_cancelled_takes_nobody_along() -> None:
    """The question belongs to all who wait."""
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


async def test_a_failure_is_everybodys_and_is_not_kept() -> None:
    """Nor is it reported as forgotten when nobody is left to hear of it."""
    flight: SingleFlight[str, str] = SingleFlight()

    async def fail() -> str:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await flight.run("a", fail)


async def test_closing_gives_up() -> None:
    """Nothing is left running."""
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


async def test_the_result_and_the_failure_are_those_of_the_work() -> None:
    """As if it were called."""
    assert await uninterrupted(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await uninterrupted(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_whoever_is_cancelled_still_waits(fails: bool) -> None:
    """However often; what came of the work is nobody's then."""
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
