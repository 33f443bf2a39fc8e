"""The calls of attached programs about their tasks."""

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
from tests.bridge.agents.agent_node import AgentNode, agent_node
from tests.bridge.agents.attached.test_attached import DONE, attach
from tests.bridge.agents.running import TIMEOUT
from tests.support.agents import NOW, Clock


class Seconds:
    """A monotonic clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def taken(node: AgentNode, session: str = "session-1") -> tuple[AttachedSession, str, int]:
    async with asyncio.timeout(TIMEOUT):
        task, _ = await node.work.take("worker", session, TIMEOUT, [])
    assert task is not None
    return node.attached.session("worker", session), task.work_id, task.attempt


async def test_all_calls_of_a_task(database: Database, tmp_path: Path) -> None:
    """Taken, begun, reported on, answered."""
    async with agent_node(database, tmp_path) as node:
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


async def test_taking_times_out(database: Database, tmp_path: Path) -> None:
    """After the wait; without a wait at once."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        assert await node.work.take("worker", "session-1", 0.0, []) == (None, [])
        assert await node.work.take("worker", "session-1", 0.05, []) == (None, [])


async def test_waiting_is_limited_by_the_heartbeat_interval(database: Database, tmp_path: Path) -> None:
    """The next request is the next heartbeat."""
    limits = AttachedLimits(heartbeat=0.05)
    async with agent_node(database, tmp_path, limits=limits) as node:
        await attach(node)
        async with asyncio.timeout(TIMEOUT):
            assert await node.work.take("worker", "session-1", 2 * TIMEOUT, []) == (None, [])


async def test_calls_are_idempotent(database: Database, tmp_path: Path) -> None:
    """Repeated starts and answers change nothing."""
    async with agent_node(database, tmp_path) as node:
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


async def test_an_answer_begins_the_task(database: Database, tmp_path: Path) -> None:
    """So does progress. A refusal does not."""
    async with agent_node(database, tmp_path) as node:
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


async def test_an_answer_is_stored_before_the_response(database: Database, tmp_path: Path) -> None:
    """A repeated answer is accepted, and a different one is not."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        assert await node.work.finish(session, work_id, attempt, DONE)
        task = await node.task("a")
        assert (task.state, task.runner, task.answer) == (State.DONE, session.runner, DONE)
        assert await node.work.finish(session, work_id, attempt, DONE)
        assert await node.tasks.finish(task.key, Answer(True, "more", 0), by=session.address) == task


async def test_an_answer_that_comes_too_late_is_refused(database: Database, tmp_path: Path) -> None:
    """The task was cancelled, or begun by another session, before the program could know."""
    async with agent_node(database, tmp_path) as node:
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


async def test_only_an_offered_task_can_be_answered(database: Database, tmp_path: Path) -> None:
    """Not another agent's task, a pending one, or another attempt."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        await node.ask("b")
        session, work_id, attempt = await taken(node)
        for name, number in (("99", 1), (str((await node.task("b")).id), 1), (work_id, attempt + 1)):
            assert not await node.work.begin(session, name, number)
            assert not await node.work.progress(session, name, number, "x")
            assert not await node.work.finish(session, name, number, DONE)
        assert (await node.task("a")).state is State.ACCEPTED


async def test_a_task_that_was_not_begun_is_offered_again(database: Database, tmp_path: Path) -> None:
    """If the first program still works on it, it comes too late."""
    seconds = Seconds()
    async with agent_node(database, tmp_path, monotonic=seconds) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        seconds.now += node.attached.limits.begin_timeout
        assert not await node.work.begin(session, work_id, attempt)
        again = await taken(node)
        assert again[1:] == (work_id, attempt + 1)
        assert not await node.work.finish(session, work_id, attempt, DONE)
        assert await node.work.finish(session, work_id, attempt + 1, DONE)


async def test_an_expired_offer_ends_the_wait(database: Database, tmp_path: Path) -> None:
    """Without any other event."""
    async with agent_node(database, tmp_path, limits=AttachedLimits(begin_timeout=0.05)) as node:
        await attach(node)
        await node.ask("a")
        await taken(node)
        _, _, attempt = await taken(node)
        assert attempt > 1


async def test_a_cancellation_is_reported_to_the_program(database: Database, tmp_path: Path) -> None:
    """At once, if the program waits; later messages about the task are ignored."""
    async with agent_node(database, tmp_path) as node:
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


async def test_the_task_service_decides_whether_a_task_may_begin(database: Database, tmp_path: Path) -> None:
    """The task was cancelled, and the program begins it before it can know."""
    async with agent_node(database, tmp_path) as node:
        await attach(node)
        await node.ask("a")
        session, work_id, attempt = await taken(node)
        node.attached.cancel = _later  # type: ignore[method-assign] # the word is still on its way
        await node.tasks.cancel((await node.task("a")).key, "somebody")
        assert not await node.work.begin(session, work_id, attempt)
        assert session.task(work_id) is None


async def _later(task: object) -> bool:
    return False


async def test_heartbeats_renew_the_leases(database: Database, tmp_path: Path) -> None:
    """Of the tasks that the program names."""
    seconds, clock = Seconds(), Clock()
    async with agent_node(database, tmp_path, monotonic=seconds, clock=clock) as node:
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


async def test_heartbeats_refresh_the_registration(database: Database, tmp_path: Path) -> None:
    """But not with every one of them."""
    seconds, clock = Seconds(), Clock()
    async with agent_node(database, tmp_path, monotonic=seconds, clock=clock) as node:
        await attach(node)
        session = node.attached.session("worker", "session-1")

        async def last_seen(now: float, now_ms: int) -> int:
            """The agent's `last_seen` after a heartbeat at that time."""
            seconds.now, clock.now_ms = now, now_ms
            await node.work.alive(session)
            async with database.transaction() as connection:
                seen: int = await connection.fetchval("SELECT last_seen FROM agents")
            return seen

        assert await last_seen(10.0, NOW + 1) == NOW + 1
        assert await last_seen(19.9, NOW + 2) == NOW + 1
        assert await last_seen(20.0, NOW + 3) == NOW + 3


async def test_a_heartbeat_does_not_change_the_status(database: Database, tmp_path: Path) -> None:
    """A status that was reported just before stays, although it is not written yet."""
    seconds = Seconds()
    async with agent_node(database, tmp_path, monotonic=seconds) as node:
        await attach(node)
        session = node.attached.session("worker", "session-1")
        seconds.now = 100.0
        node.attached.set_status(session, has_failed=True)
        await node.work.alive(session)
        await node.routes._write_pending()
        await node.status_is(AgentStatus.ERROR)


@pytest.mark.parametrize("queue", [0, 1])
async def test_the_program_chooses_its_queue_length(database: Database, tmp_path: Path, queue: int) -> None:
    """With 0 it refuses tasks while it is busy."""
    async with agent_node(database, tmp_path) as node:
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
