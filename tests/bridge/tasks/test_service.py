"""The task service accepts tasks, delivers them and returns the answers."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.liveness import LivenessMonitor
from bridge.agents.updates import Registration, StatusUpdate, Unregistration
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.limits import TaskLimits
from bridge.tasks.messages import Due
from bridge.tasks.ports import Rejected, RetryLater
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import Origin, TaskKey
from bridge.tasks.task import State
from storage.database import Database
from tests.support.agents import NOW, Clock, address, registered
from tests.support.tasks import Process, RecordingDelivery, error_code, process, request

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


# ---- the life of a task ------------------------------------------------------------------------------


async def test_a_task_is_delivered_run_and_answered(one: Process) -> None:
    """With its progress, and with every state shown to people."""
    submitted = await one.tasks.submit(request())
    assert submitted.is_new
    delivered = await one.delivery.delivered.get()
    assert delivered.request == request()
    running = await one.run()
    assert running.state is State.RUNNING
    await one.tasks.progress(KEY, {"percent": 50}, by=address("worker@here"))
    assert await one.requester.heard.get() == (KEY, {"percent": 50})
    assert await one.watcher.heard.get() == (KEY, {"percent": 50})
    await one.tasks.finish(KEY, GOOD, by=address("worker@here"))
    answered = await one.requester.answered.get()
    assert (answered.state, answered.answer) == (State.DONE, GOOD)
    assert answered.request.origin == Origin("cis", {"event_id": "$1"})
    await one.settled()
    task = await one.task()
    assert (task.due, task.answer, task.finished_at) == (frozenset(), GOOD, NOW)
    [progress] = await one.tasks.progress_of(task)
    assert (progress.number, progress.content) == (1, b'{"percent":50}')
    shown = [one.watcher.seen.get_nowait().state for _ in range(one.watcher.seen.qsize())]
    assert shown[-1] is State.DONE
    assert [state for _, state in one.observer.states] == [State.ACCEPTED, State.RUNNING, State.DONE]


async def test_progress_or_the_answer_starts_a_task_on_another_node(one: Process) -> None:
    """Nodes do not report the start of a task to each other."""
    await one.tasks.submit(request("a", "worker@kitchen"))
    await one.tasks.submit(request("b", "worker@kitchen"))
    task = await one.delivery.delivered.get()
    assert task.elsewhere
    await one.tasks.progress(TaskKey("living", "a"), {"x": 1}, by=address("worker@kitchen"))
    assert (await one.task("a")).state is State.RUNNING
    for name in ("a", "b"):
        await one.tasks.finish(TaskKey("living", name), GOOD, by=address("worker@kitchen"))
        assert (await one.requester.answered.get()).state is State.DONE


async def test_a_task_and_its_readers_position_are_stored_together(one: Process, database: Database) -> None:
    """In the reader's transaction, which may fail."""

    async def fail() -> None:
        async with database.transaction() as connection:
            await one.tasks.accept(connection, request())
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await one.tasks.task(KEY) is None
    async with database.transaction() as connection:
        first = await one.tasks.accept(connection, request())
        second = await one.tasks.accept(connection, request())
        assert one.delivery.delivered.empty()
    assert (first.is_new, second.is_new) == (True, False)
    one.tasks.committed(first)
    one.tasks.committed(second)
    await one.delivery.delivered.get()
    await one.settled()
    assert one.delivery.delivered.empty()


# ---- the errors --------------------------------------------------------------------------------------


async def test_a_task_for_an_unknown_agent(one: Process) -> None:
    """AGENT_NOT_FOUND, with the candidates; the task is shown like any other."""
    await one.tasks.submit(request(to="worker@kitchen.local"))
    answered = await one.requester.answered.get()
    assert error_code(answered.answer) is ErrorCode.AGENT_NOT_FOUND
    assert answered.answer is not None
    assert answered.answer.metadata["candidates"] == ["worker@here", "worker@kitchen"]
    assert (await one.watcher.seen.get()).state is State.FAILED


async def test_a_task_for_a_busy_agent(one: Process) -> None:
    """AGENT_BUSY, with the agent's current task."""
    await one.tasks.submit(request("a"))
    await one.tasks.submit(request("b"))
    answered = await one.requester.answered.get()
    assert answered.key.request_id == "b"
    assert error_code(answered.answer) is ErrorCode.AGENT_BUSY
    assert answered.answer is not None
    assert answered.answer.metadata["current_task"] == "task-a"


async def test_a_task_times_out(one: Process, clock: Clock) -> None:
    """TIMEOUT, and the agent is told to stop. The timeout was capped."""
    async with process(one.database, clock, limits=TaskLimits(max_timeout_ms=50)) as other:
        await other.tasks.submit(request(timeout_ms=10**9))
        await other.delivery.delivered.get()
        await other.run()
        clock.advance(50)
        other.tasks._timers._moved.set()
        answered = await other.requester.answered.get()
        assert answered.state is State.TIMED_OUT
        assert error_code(answered.answer) is ErrorCode.TIMEOUT
        await other.delivery.cancelled.get()


async def test_a_task_for_an_unreachable_node(one: Process) -> None:
    """NODE_UNREACHABLE after 3 retries; an exception of a connector counts as a failure."""
    one.delivery.outcomes = [RetryLater("away"), KeyError(), RetryLater("away"), RetryLater("still away")]
    await one.tasks.submit(request(to="worker@kitchen"))
    answered = await one.requester.answered.get()
    assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE
    assert answered.answer is not None
    assert answered.answer.output == "still away"
    assert one.delivery.delivered.qsize() == 4


async def test_a_task_that_is_refused(one: Process) -> None:
    """There is no retry, and the error code is passed on."""
    one.delivery.outcomes = [Rejected(TaskError(ErrorCode.INVALID_PAYLOAD, "It cannot be read."))]
    await one.tasks.submit(request(to="worker@kitchen"))
    answered = await one.requester.answered.get()
    assert error_code(answered.answer) is ErrorCode.INVALID_PAYLOAD
    assert one.delivery.delivered.qsize() == 1


async def test_a_task_fails_when_the_outbox_gives_up(one: Process) -> None:
    """A permanent refusal of the peer ends the task in every state."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.tasks.fail_unreachable(KEY, "It answers 403.")
    answered = await one.requester.answered.get()
    assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE


@pytest.mark.parametrize("code", list(ErrorCode))
async def test_each_error_code_reaches_the_requester(one: Process, code: ErrorCode) -> None:
    """All five of them."""
    await one.tasks.submit(request(to="worker@kitchen"))
    await one.tasks.fail(KEY, TaskError(code, "So it is."), by=address("worker@kitchen"))
    answered = await one.requester.answered.get()
    assert error_code(answered.answer) is code


async def test_a_request_that_is_too_large_is_refused_and_not_stored(one: Process) -> None:
    """INVALID_PAYLOAD; the same id may be used for a smaller request."""
    refused = await one.tasks.submit(request(prompt="x" * 300_000))
    assert (refused.task, refused.step) == (None, None)
    assert refused.refusal is not None
    assert refused.refusal.code is ErrorCode.INVALID_PAYLOAD
    assert (await one.tasks.submit(request())).is_new


async def test_the_live_tasks_of_a_node_are_limited(one: Process, clock: Clock) -> None:
    """When one of them has ended, there is room again."""
    async with process(one.database, clock, limits=TaskLimits(max_live_per_node=2)) as other:
        for name in ("a", "b"):
            await other.tasks.submit(request(name, "worker@kitchen"))
        refused = await other.tasks.submit(request("c", "worker@kitchen"))
        assert refused.refusal is not None
        assert refused.refusal.code is ErrorCode.AGENT_BUSY
        await other.tasks.cancel(TaskKey("living", "a"), "alice")
        assert (await other.tasks.submit(request("c", "worker@kitchen"))).is_new


# ---- agents that go offline --------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.QUEUED, State.ACCEPTED, State.RUNNING])
async def test_the_tasks_of_an_agent_that_goes_offline_fail(one: Process, state: State) -> None:
    """ "routes end, waiting tasks fail"; tasks of other agents continue."""
    one.settings["worker"] = AgentSettings(queue_length=5)
    await one.tasks.submit(request("other", "worker@kitchen"))
    await one.tasks.submit(request("a"))
    await one.run("a")
    wanted = "a"
    if state is not State.RUNNING:
        wanted = "b"
        await one.tasks.submit(request("b"))
    if state is State.ACCEPTED:
        await one.tasks.finish(TaskKey("living", "a"), GOOD)
        assert (await one.requester.answered.get()).key.request_id == "a"
        while (await one.task("b")).state is not State.ACCEPTED:
            await asyncio.sleep(0.01)
    assert (await one.task(wanted)).state is state
    await one.routes.update([Unregistration(address("worker@here"), "shutdown", NOW + 1)])
    answered = {}
    while wanted not in answered:
        task = await one.requester.answered.get()
        answered[task.key.request_id] = task
    answer = answered[wanted].answer
    assert answer is not None
    if state is State.RUNNING:
        assert (answer.error_code, answer.metadata["interrupted"]) == (ErrorCode.NODE_UNREACHABLE, True)
    else:
        assert error_code(answer) is ErrorCode.AGENT_NOT_FOUND
    assert (await one.task("other")).state is State.ACCEPTED


async def test_a_node_answers_the_task_of_its_offline_agent(one: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node knows whether the task had started, but may report the agent offline first. Without an answer
    the task fails a moment later."""
    monkeypatch.setattr("bridge.tasks.sweep.REMOTE_ANSWER_TIMEOUT", 0.2)
    by = address("worker@kitchen")
    for name in "ab":
        await one.tasks.submit(request(name, str(by)))
    await one.routes.update([Unregistration(by, "killed", NOW + 1)])
    lost = Answer(False, "lost", -1, error_code=ErrorCode.NODE_UNREACHABLE, metadata={"interrupted": True})
    await one.tasks.finish(TaskKey("living", "a"), lost, by=by)
    answered = [await one.requester.answered.get() for _ in "ab"]
    assert [(task.key.request_id, error_code(task.answer)) for task in answered] == [
        ("a", ErrorCode.NODE_UNREACHABLE),
        ("b", ErrorCode.AGENT_NOT_FOUND),
    ]


async def test_the_tasks_of_a_silent_node_fail(one: Process, clock: Clock) -> None:
    """120 s without a heartbeat: NODE_UNREACHABLE, long before the task's own deadline."""
    watch = LivenessMonitor(one.routes, one.database, now_ms=clock)
    await one.tasks.submit(request(to="worker@kitchen", timeout_ms=3_000_000))
    for _ in range(9):
        await watch.check()
        clock.advance(15_000)
    await watch.check()
    answered = await one.requester.answered.get()
    assert error_code(answered.answer) is ErrorCode.NODE_UNREACHABLE
    assert Due.CANCEL in answered.due, "it may come back and still be at it"


# ---- cancelling --------------------------------------------------------------------------------------


async def test_a_task_is_cancelled(one: Process) -> None:
    """The requester gets the answer at once, and the agent is told to stop."""
    await one.tasks.submit(request())
    await one.run()
    cancelled = await one.tasks.cancel(KEY, "alice", "wrong one")
    assert cancelled is not None
    assert cancelled.state is State.CANCELLED
    answered = await one.requester.answered.get()
    assert answered.answer is not None
    assert answered.answer.output == "Cancelled by alice: wrong one"
    assert (await one.delivery.cancelled.get()).key == KEY
    await one.tasks.finish(KEY, GOOD)
    assert (await one.task()).state is State.CANCELLED


async def test_a_cancelled_task_cannot_be_started(one: Process) -> None:
    """The agent may have received it already."""
    await one.tasks.submit(request())
    await one.tasks.cancel(KEY, "alice")
    assert await one.tasks.begin(KEY) is None


# ---- repeated requests -------------------------------------------------------------------------------


async def test_a_repeated_request_gets_the_stored_answer(one: Process) -> None:
    """At its new origin, and the task does not run again."""
    await one.tasks.submit(request())
    await one.run()
    again = await one.tasks.submit(request(origin=Origin("cis", {"event_id": "$2"})))
    assert not again.is_new
    assert again.task is not None
    assert again.task.state is State.RUNNING
    await one.tasks.finish(KEY, GOOD)
    assert (await one.requester.answered.get()).request.origin.reference == {"event_id": "$2"}
    await one.settled()
    await one.tasks.submit(request(origin=Origin("cis", {"event_id": "$3"})))
    answered = await one.requester.answered.get()
    assert (answered.answer, answered.asked) == (GOOD, 3)
    assert answered.request.origin.reference == {"event_id": "$3"}
    await one.settled()
    assert one.delivery.delivered.qsize() == 1
    assert one.requester.answered.empty()


async def test_a_request_id_is_not_used_for_two_tasks(one: Process) -> None:
    """ "an id with other content is refused"; another node may use the same id."""
    await one.tasks.submit(request())
    other = await one.tasks.submit(request(prompt="Something else"))
    assert other.refusal is not None
    assert (other.refusal.code, other.refusal.metadata) == (ErrorCode.INVALID_PAYLOAD, {"field": "request_id"})
    attic = await one.tasks.submit(request(key=TaskKey("attic", "req-1")))
    assert attic.is_new


async def test_concurrent_repetitions_are_one_task(one: Process) -> None:
    """However they arrive."""
    found = await asyncio.gather(*(one.tasks.submit(request(to="worker@kitchen")) for _ in range(10)))
    assert sum(submitted.is_new for submitted in found) == 1
    await one.settled()
    assert one.delivery.delivered.qsize() == 1
    assert (await one.task()).asked == 10


# ---- messages that are dropped -----------------------------------------------------------------------


async def test_a_late_answer_is_audited_and_dropped(one: Process) -> None:
    """The first answer stays."""
    await one.tasks.submit(request())
    await one.run()
    await one.tasks.finish(KEY, GOOD)
    await one.tasks.finish(KEY, replace(GOOD, output="another"))
    assert (await one.task()).answer == GOOD
    [(name, dropped)] = one.observer.drops
    assert (name, dropped.message, dropped.reason) == ("req-1", "result", "the task is done already")


async def test_only_the_target_may_answer(one: Process) -> None:
    """ "one answer, matched by `request_id` and peer"."""
    await one.tasks.submit(request(to="worker@kitchen"))
    for by in ("worker@here", "other@kitchen"):
        assert await one.tasks.finish(KEY, GOOD, by=address(by)) is None
        assert await one.tasks.progress(KEY, {}, by=address(by)) is None
        assert await one.tasks.fail(KEY, TaskError(ErrorCode.TIMEOUT, ""), by=address(by)) is None
    assert (await one.task()).state is State.ACCEPTED
    assert len(one.observer.drops) == 6


async def test_messages_about_an_unknown_task_are_dropped(one: Process) -> None:
    """Also if its name cannot be in the database."""
    for name in ("unknown", "a\0b", "\ud800", ""):
        assert await one.tasks.finish(TaskKey("living", name), GOOD) is None
        assert await one.tasks.cancel(TaskKey("living", name), "alice") is None
        assert await one.tasks.find(name) == []
    assert len(one.observer.drops) == 8


async def test_progress_that_is_too_long_is_dropped(one: Process) -> None:
    """And a message that is not JSON."""
    await one.tasks.submit(request(to="worker@kitchen"))
    for content in ({"x": "y" * 20_000}, {"x": 10**30}, {"x": object()}):
        assert await one.tasks.progress(KEY, content) is None
    assert len(one.observer.drops) == 3


async def test_tasks_are_found_by_their_names(one: Process) -> None:
    """By request id and by task id."""
    await one.tasks.submit(request())
    [task] = await one.tasks.find("task-req-1")
    assert task.key == KEY
    assert await one.tasks.search(agent=address("worker@here"), states=[State.ACCEPTED]) == [task]
    assert await one.tasks.search(before=task.id) == []
    assert await one.tasks.search(agent=address("other@here")) == []
    assert [task.key for task in await one.tasks.find("req-1")] == [KEY]


async def test_an_answer_that_fails_is_sent_by_a_later_sweep(database: Database, clock: Clock) -> None:
    """The next one or the one after."""
    async with process(database, clock, sweep_interval=0.05) as one:
        await one.routes.update([registered("worker@here")])
        one.requester.failures = 9
        await one.tasks.submit(request())
        await one.run()
        await one.tasks.finish(KEY, GOOD)
        assert (await one.requester.answered.get()).answer == GOOD
        assert any("answer" in problem for problem in one.observer.problems)


async def test_a_recovered_agent_gets_its_queued_tasks(one: Process) -> None:
    """While it has failed it gets none."""
    one.settings["worker"] = AgentSettings(queue_length=5)
    await one.tasks.submit(request("a"))
    await one.tasks.submit(request("b"))
    await one.run("a")
    await one.routes.update([StatusUpdate(address("worker@here"), AgentStatus.ERROR, None, NOW + 1)])
    await one.tasks.finish(TaskKey("living", "a"), GOOD)
    assert (await one.delivery.delivered.get()).key.request_id == "a"
    await one.tasks._queues.sweep()
    await one.settled()
    assert (await one.task("b")).state is State.QUEUED
    await one.routes.update([StatusUpdate(address("worker@here"), AgentStatus.IDLE, None, NOW + 2)])
    assert (await one.delivery.delivered.get()).key.request_id == "b"


async def test_an_agent_that_is_online_again_gets_its_queued_tasks(database: Database, clock: Clock) -> None:
    """Although no process was running to fail them when it went offline."""
    async with process(database, clock) as one:
        one.settings["worker"] = AgentSettings(1, 5)
        await one.routes.update([registered("worker@here")])
        for request_id in ("req-1", "req-2"):
            await one.tasks.submit(request(request_id))
        await one.run()
        await one.settled()
    async with process(database, clock, started=False) as two:
        two.settings["worker"] = AgentSettings(1, 5)
        await two.routes.update([Unregistration(address("worker@here"), "shutdown", NOW + 1)])
        await two.tasks.start()
        assert error_code((await two.requester.answered.get()).answer) is ErrorCode.NODE_UNREACHABLE
        await two.settled()
        assert two.delivery.delivered.empty()
        assert (await two.task("req-2")).state is State.QUEUED
        await two.routes.update([registered("worker@here", NOW + 2)])
        assert (await two.delivery.delivered.get()).key.request_id == "req-2"


async def test_a_task_is_delivered_by_its_agents_connector(database: Database, clock: Clock) -> None:
    """Each agent names its connector. Without that connector the task may be for another process."""
    delivery = RecordingDelivery()
    async with process(database, clock, delivery=delivery) as one:
        news = Registration(address("guest@here"), "offices", "other", (), NOW)
        await one.routes.update([news])
        await one.tasks.submit(request(to="guest@here"))
        await one.settled()
        assert delivery.delivered.empty()
        assert (await one.task()).due == {Due.DELIVER}
