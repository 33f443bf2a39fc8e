"""One session of an attached program."""

import asyncio

from bridge.agents.attached.attachment import Phase
from bridge.agents.attached.session import AttachedSession, Program
from bridge.agents.work import assignment_of
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.task import Task
from tests.support.agents import address
from tests.support.tasks import request


def session(parallel: int = 1) -> AttachedSession:
    return AttachedSession(address("worker@here"), Program("session-1", "token", "x", (), parallel, queue=5), 10.0)


def work(number: int) -> Task:
    return Task(request(str(number)), 0, 1000, id=number)


async def test_waiting_ends_at_a_change() -> None:
    """A task, a cancellation, room for a pending task, or the end; for all who wait, and only after a later
    change."""
    one = session()
    one.wake()
    for happening in (
        lambda: one.deliver(work(1)),
        lambda: one.deliver(work(2)),
        lambda: one.withdraw("1"),
        lambda: one.finish("3", 1),
        one.end,
    ):
        waiting = [asyncio.create_task(one.wait_for_change(3_600.0)) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        happening()
        async with asyncio.timeout(10):
            await asyncio.gather(*waiting)
    assert one.has_ended


async def test_a_finished_task_without_a_successor_is_no_change() -> None:
    """Waiting continues until its timeout."""
    one = session()
    one.deliver(work(1))
    assert one.next([], 0.0, 30.0) == assignment_of(work(1))
    waiting = asyncio.create_task(one.wait_for_change(3_600.0))
    await asyncio.sleep(0)
    one.finish("1", 1)
    await one.wait_for_change(0.01)
    assert not waiting.done()
    one.wake()
    async with asyncio.timeout(10):
        await waiting


def test_the_next_result() -> None:
    """A task; otherwise the cancelled tasks; otherwise the time to wait."""
    one = session(parallel=2)
    assert one.next([], 0.0, 30.0) == 30.0
    assert one.next(["7"], 0.0, 30.0) == ["7"]
    one.deliver(work(1))
    assert one.next(["7"], 0.0, 30.0) == assignment_of(work(1))
    # The offer expires before the wait ends.
    assert one.next([], 0.0, 30.0) == 10.0
    assert one.next([], 0.0, 5.0) == 5.0


def test_the_session_has_its_tasks() -> None:
    """Until they end."""
    one = session()
    one.deliver(work(1))
    one.deliver(work(1))
    assert one.task("1") == work(1)
    assert [task.id for task in one.not_begun()] == [1]
    one.resume(work(2), 3)
    assert one.attachment.phase_of("2", 3, 0.0) is Phase.BEGUN
    assert [task.id for task in one.begun()] == [2]
    assert one.withdraw("1")
    assert not one.withdraw("1")
    one.finish("2", 3)
    assert (one.task("1"), one.task("2")) == (None, None)
    assert (one.runner, one.settings) == ("session session-1", AgentSettings(1, 5))
