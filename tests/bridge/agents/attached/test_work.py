"""What attached programs say of their tasks."""

import asyncio
from pathlib import Path

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.attached.attached import AttachedLimits
from bridge.agents.attached.session import AttachedSession
from bridge.agents.work import WorkOutcome
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import State
from storage.database import Database
from tests.bridge.agents.attached.test_attached import DONE, attach
from tests.bridge.agents.kitchen import Kitchen, kitchen
from tests.bridge.agents.running import TIMEOUT
from tests.support.agents import NOW, Clock


class Seconds:
    """A clock that never runs backwards, and stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def taken(node: Kitchen, session: str = "session-1") -> tuple[AttachedSession, str, int]:
    async with asyncio.timeout(TIMEOUT):
        task, _ = await node.work.take("worker", session, TIMEOUT, [])
    assert task is not None
    return node.attached.session("worker", session), task.work_id, task.attempt


async def test_the_way_of_a_task(database: Database, tmp_path: Path) -> None:
    """Taken, begun, reported on, answered."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        asking = asyncio.create_task(node.work.take("worker", "session-1", TIMEOUT, []))
        await asyncio.sleep(0)
        await node.ask("a", prompt="Cook", context="today")
        task, cancelled = await asyncio.wait_for(asking, TIMEOUT)
        assert task is not None
        assert (task.prompt, task.context, cancelled) == ("Cook", "today", [])
        assert (await node.task("a")).state is State.ACCEPTED
        session = node.attached.session("worker", "session-1")
        assert await node.work.begin(session, task.work_id, task.attempt)
        assert (await node.task("a")).state is State.RUNNING
        assert await node.work.progress(session, task.work_id, task.attempt, "half")
        assert (await node.requester.heard.get())[1] == {"message": "half"}
        assert await node.work.finish(session, task.work_id, task.attempt, DONE)
        assert (await node.answered()).answer == DONE


async def test_whoever_waits_in_vain_is_told_so(database: Database, tmp_path: Path) -> None:
    """When the time is over; without any, at once."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        assert await node.work.take("worker", "session-1", 0.0, []) == (None, [])
        assert await node.work.take("worker", "session-1", 0.05, []) == (None, [])


async def test_nobody_waits_so_long_that_they_would_be_taken_for_gone(
    database: Database, tmp_path: Path
) -> None:
    """The next question is the next sign of life."""
    limits = AttachedLimits(heartbeat=0.05)
    async with kitchen(database, tmp_path, limits=limits) as node:
        await attach(node)
        async with asyncio.timeout(TIMEOUT):
            assert await node.work.take("worker", "session-1", 2 * TIMEOUT, []) == (None, [])


async def test_what_is_said_twice_counts_once(database: Database, tmp_path: Path) -> None:
    """Beginnings and answers; the second answer is not the first one's end."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        for _ in range(2):
            assert await node.work.begin(session, work_id, attempt)
        for answer in (DONE, Answer(False, "no", 1)):
            assert await node.work.finish(session, work_id, attempt, answer)
        assert not await node.work.begin(session, work_id, attempt)
        assert (await node.answered()).answer == DONE
        assert (await node.task("a")).answer == DONE


async def test_an_answer_alone_is_enough(database: Database, tmp_path: Path) -> None:
    """So is a report: both begin the task. A refusal does not have to."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        outcomes: list[WorkOutcome] = [DONE, TaskError(ErrorCode.INVALID_PAYLOAD, "Not this.")]
        for number, outcome in enumerate(outcomes):
            await node.ask(str(number))
            session, work_id, attempt = await taken(node)
            assert await node.work.finish(session, work_id, attempt, outcome)
            answer = (await node.answered()).answer
            assert answer is not None
            assert answer.output == ("done", "Not this.")[number]
        await node.ask("c")
        session, work_id, attempt = await taken(node)
        assert await node.work.progress(session, work_id, attempt, "at it")
        assert (await node.task("c")).state is State.RUNNING


async def test_to_answer_is_also_to_begin(database: Database, tmp_path: Path) -> None:
    """It is stored when the program is told so; said again, it still is, and another answer is none."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        assert await node.work.finish(session, work_id, attempt, DONE)
        task = await node.task("a")
        assert (task.state, task.runner, task.answer) == (State.DONE, session.runner, DONE)
        assert await node.work.finish(session, work_id, attempt, DONE)
        assert await node.tasks.finish(task.key, Answer(True, "more", 0), by=session.address) == task


async def test_who_answers_at_once_and_comes_too_late_is_told_so(database: Database, tmp_path: Path) -> None:
    """The task was cancelled, or begun by another session, and nobody could say so yet."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        node.attached.cancel = _later  # type: ignore[method-assign] # the word is still on its way
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        await node.tasks.cancel((await node.task("a")).key, "somebody")
        assert not await node.work.finish(session, work_id, attempt, DONE)
        assert session.task(work_id) is None
        assert (await node.task("a")).state is State.CANCELLED
        await node.ask("b")
        session, work_id, attempt = await taken(node)
        await node.tasks.begin((await node.task("b")).key, runner="session other", lease_until=NOW + 60_000)
        assert not await node.work.finish(session, work_id, attempt, DONE)
        assert (await node.task("b")).state is State.RUNNING


async def test_what_was_never_given_cannot_be_answered(database: Database, tmp_path: Path) -> None:
    """Another's task, one that waits, another attempt."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        await node.ask("b")
        session, work_id, attempt = await taken(node)
        for name, number in (("99", 1), (str((await node.task("b")).id), 1), (work_id, attempt + 1)):
            assert not await node.work.begin(session, name, number)
            assert not await node.work.progress(session, name, number, "x")
            assert not await node.work.finish(session, name, number, DONE)
        assert (await node.task("a")).state is State.ACCEPTED


async def test_what_was_taken_and_not_begun_is_given_again(database: Database, tmp_path: Path) -> None:
    """The one who took it may have vanished. If it has not, it comes too late."""
    seconds = Seconds()
    async with kitchen(database, tmp_path, monotonic=seconds) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        seconds.now += node.attached.limits.begin_timeout
        assert not await node.work.begin(session, work_id, attempt)
        again = await taken(node)
        assert again[1:] == (work_id, attempt + 1)
        assert not await node.work.finish(session, work_id, attempt, DONE)
        assert await node.work.finish(session, work_id, attempt + 1, DONE)


async def test_whoever_waits_hears_of_what_was_not_begun(database: Database, tmp_path: Path) -> None:
    """Without anything else happening."""
    async with kitchen(database, tmp_path, limits=AttachedLimits(begin_timeout=0.05)) as node:
        await attach(node)
        await node.ask("a")
        await taken(node)
        _, _, attempt = await taken(node)
        assert attempt > 1


async def test_what_is_cancelled_is_told_to_whoever_works_on_it(database: Database, tmp_path: Path) -> None:
    """At once, if the program waits; and nothing counts that it still says."""
    async with kitchen(database, tmp_path) as node:
        await attach(node, parallel=2)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        await node.work.begin(session, work_id, attempt)
        asking = asyncio.create_task(node.work.take("worker", "session-1", TIMEOUT, [work_id]))
        await asyncio.sleep(0)
        await node.tasks.cancel((await node.task("a")).key, "somebody")
        assert await asyncio.wait_for(asking, TIMEOUT) == (None, [work_id])
        assert not await node.work.progress(session, work_id, attempt, "x")
        assert not await node.work.finish(session, work_id, attempt, DONE)


async def test_a_desk_that_has_closed_the_case_is_believed(database: Database, tmp_path: Path) -> None:
    """The task was cancelled, and the program wants to begin before anybody could tell it."""
    async with kitchen(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        node.attached.cancel = _later  # type: ignore[method-assign] # the word is still on its way
        await node.tasks.cancel((await node.task("a")).key, "somebody")
        assert not await node.work.begin(session, work_id, attempt)
        assert session.task(work_id) is None


async def _later(task: object) -> bool:
    return False


async def test_work_is_kept_for_who_is_heard_from(database: Database, tmp_path: Path) -> None:
    """With each sign of life, as long again; what it does not name is not."""
    seconds, clock = Seconds(), Clock()
    async with kitchen(database, tmp_path, monotonic=seconds, clock=clock) as node:
        await attach(node, parallel=2)
        for name in "ab":
            await node.ask(name)
            session, work_id, attempt = await taken(node)
            await node.work.begin(session, work_id, attempt)
        first = str((await node.task("a")).id)
        assert (await node.task("a")).lease_until == NOW + 120_000
        seconds.now, clock.now_ms = 30.0, NOW + 30_000
        await node.work.alive(session, [first, "99"])
        assert (await node.task("a")).lease_until == NOW + 150_000
        assert (await node.task("b")).lease_until == NOW + 120_000
        seconds.now, clock.now_ms = 60.0, NOW + 60_000
        await node.work.alive(session)
        assert (await node.task("b")).lease_until == NOW + 180_000


async def test_a_sign_of_life_is_passed_on(database: Database, tmp_path: Path) -> None:
    """But not every one of them: others are to know that it lives, no more."""
    seconds, clock = Seconds(), Clock()
    async with kitchen(database, tmp_path, monotonic=seconds, clock=clock) as node:
        await attach(node)
        session = node.attached.session("worker", "session-1")

        async def last_seen(now: float, now_ms: int) -> int:
            """After a sign of life at that time."""
            seconds.now, clock.now_ms = now, now_ms
            await node.work.alive(session)
            async with database.transaction() as connection:
                seen: int = await connection.fetchval("SELECT last_seen FROM agents")
            return seen

        assert await last_seen(10.0, NOW + 1) == NOW + 1
        assert await last_seen(19.9, NOW + 2) == NOW + 1
        assert await last_seen(20.0, NOW + 3) == NOW + 3


async def test_a_sign_of_life_does_not_say_what_the_agent_does(database: Database, tmp_path: Path) -> None:
    """What was said of that a moment ago stands, although nobody has written it down yet."""
    seconds = Seconds()
    async with kitchen(database, tmp_path, monotonic=seconds) as node:
        await attach(node)
        session = node.attached.session("worker", "session-1")
        seconds.now = 100.0
        node.attached.set_status(session, has_failed=True)
        await node.work.alive(session)
        await node.routes._write_pending()
        await node.status_is(AgentStatus.ERROR)


@pytest.mark.parametrize("queue", [0, 1])
async def test_a_queue_of_its_own_choice(database: Database, tmp_path: Path, queue: int) -> None:
    """With none it refuses what comes while it is busy."""
    async with kitchen(database, tmp_path) as node:
        await attach(node, queue=queue)
        for name in "ab":
            await node.ask(name)
        session, work_id, attempt = await taken(node)
        if not queue:
            answer = (await node.answered()).answer
            assert answer is not None
            assert answer.error_code is ErrorCode.AGENT_BUSY
        await node.work.finish(session, work_id, attempt, DONE)
        if queue:
            await taken(node)
