"""One session of a program that is attached."""

import asyncio

from bridge.agent_queue import AgentSettings
from bridge.agent_work import to_do
from bridge.attachment import Phase
from bridge.service.agents.attached_session import AttachedSession, Program
from bridge.task import Task
from tests.support.agents import address
from tests.support.desk import request


def session(parallel: int = 1) -> AttachedSession:
    return AttachedSession(
        address("worker@here"), Program("session-1", "token", "x", (), parallel, queue=5), 10.0
    )


def work(number: int) -> Task:
    return Task(request(str(number)), 0, 1000, id=number)


async def test_whoever_waits_is_woken_by_news() -> None:
    """A task, one that is taken back, room for another, and the end; but only by what comes after the
    look."""
    one = session()
    for happening in (
        lambda: one.deliver(work(1)),
        lambda: one.withdraw("1"),
        lambda: one.finish("2", 1),
        one.end,
    ):
        news = one.news
        assert not news.is_set()
        happening()
        async with asyncio.timeout(10):
            await news.wait()
    assert one.has_ended


def test_what_comes_next() -> None:
    """A task; else what of the work is not wanted; else how long to wait."""
    one = session(parallel=2)
    assert one.next([], 0.0, 30.0) == 30.0
    assert one.next(["7"], 0.0, 30.0) == ["7"]
    one.deliver(work(1))
    assert one.next(["7"], 0.0, 30.0) == to_do(work(1))
    # What was offered will be offered again before the time is over.
    assert one.next([], 0.0, 30.0) == 10.0
    assert one.next([], 0.0, 5.0) == 5.0


def test_the_desks_task_goes_with_it() -> None:
    """As long as it is here."""
    one = session()
    one.deliver(work(1))
    one.deliver(work(1))
    assert one.task("1") == work(1)
    assert [task.id for task in one.not_begun()] == [1]
    one.resume(work(2), 3)
    assert one.attachment.phase("2", 3, 0.0) is Phase.BEGUN
    assert [task.id for task in one.begun()] == [2]
    assert one.withdraw("1")
    assert not one.withdraw("1")
    one.finish("2", 3)
    assert (one.task("1"), one.task("2")) == (None, None)
    assert (one.runner, one.settings) == ("session session-1", AgentSettings(1, 5))
