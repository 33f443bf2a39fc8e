"""Due effects are performed, and recorded as done."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bridge.tasks.effects import MAX_CONCURRENT, MAX_PENDING, MAX_PENDING_PROGRESS, Ports, TaskEffects
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.lease import TOPIC, read_notice
from bridge.tasks.messages import Accept, Cancel, Due, Error, Message, Unreachable
from bridge.tasks.ports import Delivered, DeliveryOutcome, NotInThisProcess, Rejected, RetryLater
from bridge.tasks.request import Origin, TaskKey
from bridge.tasks.retry import RetryPolicy
from bridge.tasks.store import TaskStore
from bridge.tasks.task import Task, receive
from storage.concurrency import BackgroundTasks
from storage.database import Database
from tests.support.agents import NOW, registered, routing_table
from tests.support.postgres import as_another_process
from tests.support.tasks import RecordingDelivery, RecordingObserver, RecordingReply, RecordingWatcher, request

TIMEOUT = 60.0
QUICK = RetryPolicy(max_retries=2, base_delay_ms=1)


@dataclass
class Bench:
    effects: TaskEffects
    store: TaskStore
    database: Database
    delivery: RecordingDelivery
    requester: RecordingReply
    watcher: RecordingWatcher
    observer: RecordingObserver
    happened: list[Message] = field(default_factory=list)

    async def apply(self, key: TaskKey, message: Message) -> None:
        """Takes the place of `TaskSteps.apply`."""
        self.happened.append(message)

    async def stored(self, *messages: Message, **changed: Any) -> Task:
        """Store a task after these messages."""
        task = Task(request(**changed), NOW, NOW + 300_000)
        for message in messages:
            task = receive(task, message, NOW).task
        async with self.database.transaction() as connection:
            stored, _ = await self.store.accept(connection, task, 1)
        assert stored is not None
        return stored

    async def due(self, task: Task) -> frozenset[Due]:
        """The effects that are due according to the database, once no effect is running."""
        while not self.effects.is_idle:
            await asyncio.sleep(0.005)
        known = await self.store.load(task.key)
        assert known is not None
        return known.due


@contextlib.asynccontextmanager
async def bench(database: Database, **changed: Any) -> AsyncIterator[Bench]:
    async with routing_table(database) as routes:
        await routes.update([registered("worker@here")])
        store = TaskStore(database)
        delivery, requester = RecordingDelivery(), RecordingReply()
        watcher, observer = RecordingWatcher(), RecordingObserver()
        ports = {
            "deliveries": {"cis": delivery},
            "replies": {"cis": requester},
            "routes": routes,
            "observer": observer,
            "watcher": watcher,
            "retry": QUICK,
        }

        background = BackgroundTasks()
        effects = TaskEffects(database, store, Ports(**{**ports, **changed}), background)
        one = Bench(effects, store, database, delivery, requester, watcher, observer)
        effects.start(one)  # type: ignore[arg-type]
        try:
            yield one
        finally:
            await background.close()
            await effects.close()


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Bench]:
    async with bench(database) as one:
        yield one


class SlowWatcher(RecordingWatcher):
    """Blocks until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()

    async def show(self, task: Task) -> None:
        await super().show(task)
        await self.release.wait()


async def test_due_effects_are_performed_once(one: Bench) -> None:
    """Each by the connector that is responsible for it."""
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted)
    assert await one.due(accepted) == frozenset()
    assert await one.delivery.delivered.get() == accepted
    assert await one.watcher.seen.get() == accepted
    cancelled = await one.stored(Accept(), Cancel("alice"), key=TaskKey("living", "b"))
    one.effects.start_due(cancelled)
    assert await one.due(cancelled) == frozenset()
    assert await one.delivery.cancelled.get() == cancelled
    assert await one.requester.answered.get() == cancelled


async def test_only_the_selected_effects_are_performed(one: Bench) -> None:
    """Another process may perform the others."""
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted, {Due.DELIVER})
    assert await one.due(accepted) == {Due.SHOW}


async def test_the_answer_is_sent_before_people_are_shown_the_task(database: Database) -> None:
    """People are shown the last of several consecutive steps, and an update that was not shown stays due."""
    async with bench(database, shown_after=3_600.0) as one:
        over = await one.stored(Accept(), Cancel("alice"))
        one.effects.start_due(over)
        assert (await one.requester.answered.get()).key == over.key
        assert one.watcher.seen.empty()
    known = await one.store.load(over.key)
    assert known is not None
    assert Due.SHOW in known.due


async def test_without_a_watcher_nothing_is_shown(database: Database) -> None:
    """And nothing stays due for it."""
    async with bench(database, shown_after=0.01, watcher=None) as one:
        accepted = await one.stored(Accept())
        one.effects.start_due(accepted, {Due.SHOW})
        assert await one.due(accepted) == {Due.DELIVER}
    assert one.observer.problems == []


async def test_a_step_during_an_update_is_shown_afterwards(database: Database) -> None:
    """People see the final state last."""
    watcher = SlowWatcher()
    async with bench(database, shown_after=0.01, watcher=watcher) as one:
        accepted = await one.stored(Accept())
        one.effects.start_due(accepted, {Due.SHOW})
        assert await watcher.seen.get() == accepted
        over = receive(accepted, Cancel("alice"), NOW).task
        async with one.database.transaction() as connection:
            assert await one.store.store_step(connection, over, 1)
        one.effects.start_due(over, {Due.SHOW})
        watcher.release.set()
        assert Due.SHOW not in await one.due(over)
    assert watcher.seen.get_nowait() == over


async def test_slow_updates_delay_neither_deliveries_nor_answers(database: Database) -> None:
    """Each kind of effect has its own limit."""
    watcher = SlowWatcher()
    async with bench(database, watcher=watcher) as one:
        keys = [TaskKey("living", f"r{number}") for number in range(MAX_CONCURRENT + 1)]
        for key in keys:
            one.effects.start_due(await one.stored(Accept(), Cancel("alice"), key=key))
        async with asyncio.timeout(TIMEOUT):
            cancelled = {(await one.delivery.cancelled.get()).key for _ in keys}
            answered = {(await one.requester.answered.get()).key for _ in keys}
        assert cancelled == answered == set(keys)
        assert watcher.seen.qsize() == MAX_CONCURRENT


async def test_pending_updates_are_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay due, and are shown when a sweep finds them."""
    monkeypatch.setitem(MAX_PENDING, Due.SHOW, 2)  # type: ignore[arg-type]
    watcher = SlowWatcher()
    async with bench(database, watcher=watcher) as one:
        tasks = [await one.stored(Accept(), key=TaskKey("living", name)) for name in "abc"]
        for task in tasks:
            one.effects.start_due(task)
        assert {(await watcher.seen.get()).key for _ in range(2)} == {task.key for task in tasks[:2]}
        watcher.release.set()
        assert await one.due(tasks[0]) == frozenset()
        assert await one.due(tasks[2]) == {Due.SHOW}
        assert watcher.seen.empty()
        one.effects.start_due(await one.store.load(tasks[2].key) or tasks[2])
        assert await one.due(tasks[2]) == frozenset()


async def test_an_effect_runs_once_at_a_time(one: Bench) -> None:
    """However often it is started meanwhile."""
    accepted = await one.stored(Accept())
    for _ in range(5):
        one.effects.start_due(accepted)
    await one.delivery.delivered.get()
    one.effects.start_due(accepted)
    await one.due(accepted)
    assert one.delivery.delivered.empty()


@pytest.mark.parametrize("failure", [RetryLater("away"), ConnectionError(), TimeoutError()])
async def test_a_failed_effect_is_retried(one: Bench, failure: DeliveryOutcome | Exception) -> None:
    """By the retry policy; an exception of a connector counts as a failure."""
    one.delivery.outcomes = [failure, failure, Delivered()]
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted)
    assert await one.due(accepted) == frozenset()
    assert one.delivery.delivered.qsize() == 3
    assert one.happened == []


async def test_an_effect_that_times_out_is_retried(one: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt is cancelled."""
    monkeypatch.setattr("bridge.tasks.effects.PERFORM_TIMEOUT", 0.01)
    given_up = asyncio.Event()
    deliver = one.delivery.deliver

    async def never(task: Task) -> DeliveryOutcome:
        one.delivery.deliver = deliver  # type: ignore[method-assign]
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        raise AssertionError("nobody waits for it any more")

    one.delivery.deliver = never  # type: ignore[method-assign]
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted, {Due.DELIVER})
    assert await one.due(accepted) == {Due.SHOW}
    assert given_up.is_set()
    assert one.delivery.delivered.qsize() == 1


async def test_a_delivery_that_keeps_failing_ends_the_task(one: Bench) -> None:
    """The reason is that of the last attempt."""
    one.delivery.outcomes = [RetryLater("one"), RetryLater("two"), RetryLater("three")]
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted)
    assert Due.DELIVER in await one.due(accepted)
    assert one.happened == [Unreachable("three")]


async def test_an_answer_that_keeps_failing_stays_due(one: Bench) -> None:
    """The next sweep finds it."""
    one.requester.failures = 3
    cancelled = await one.stored(Cancel("alice"))
    one.effects.start_due(cancelled)
    assert await one.due(cancelled) == {Due.ANSWER}
    assert "retried later" in one.observer.problems[-1]
    one.effects.start_due(cancelled)
    assert await one.due(cancelled) == frozenset()


async def test_a_refused_delivery_is_not_retried(one: Bench) -> None:
    """The task ends with the connector's error."""
    error = TaskError(ErrorCode.AGENT_BUSY, "no")
    one.delivery.outcomes = [Rejected(error)]
    one.effects.start_due(accepted := await one.stored(Accept()))
    await one.due(accepted)
    assert one.happened == [Error(error)]


@pytest.mark.parametrize("announce", [True, False])
async def test_an_effect_for_another_process_stays_due_and_is_notified(one: Bench, announce: bool) -> None:
    """A process that was notified does not notify again."""
    received: asyncio.Queue[str | None] = asyncio.Queue()
    as_another_process(one.database).session.subscribe(TOPIC, received.put_nowait)
    await received.get()
    one.delivery.outcomes = [NotInThisProcess()]
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted, announce=announce)
    assert await one.due(accepted) == {Due.DELIVER}
    one.database.session.notify(TOPIC, "end")
    notices = []
    while (notice := await received.get()) != "end":
        notices.append(notice)
    assert [read_notice(notice) for notice in notices if notice] == ([accepted.key] if announce else [])


async def test_an_effect_without_a_connector_stays_due(database: Database) -> None:
    """Another process may have the connector."""
    async with bench(database, deliveries={}, replies={}, watcher=None) as one:
        accepted = await one.stored(Accept())
        one.effects.start_due(accepted)
        assert await one.due(accepted) == {Due.DELIVER}
        cancelled = await one.stored(Accept(), Cancel("alice"), key=TaskKey("living", "b"))
        one.effects.start_due(cancelled)
        assert await one.due(cancelled) == {Due.CANCEL, Due.ANSWER}
        one.effects.send_progress(cancelled, {"percent": 1})
        assert one.observer.problems == []


async def test_a_cancelled_delivery_is_not_retried(one: Bench) -> None:
    """The task was cancelled between two attempts; the agent is told to stop after the attempt."""
    going, release = asyncio.Event(), asyncio.Event()

    async def deliver(task: Task) -> DeliveryOutcome:
        one.delivery.delivered.put_nowait(task)
        going.set()
        await release.wait()
        return RetryLater("away")

    one.delivery.deliver = deliver  # type: ignore[method-assign]
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted)
    await going.wait()
    cancelled = receive(accepted, Cancel("alice"), NOW).task
    async with one.database.transaction() as connection:
        assert await one.store.store_step(connection, cancelled, 1)
    one.effects.start_due(cancelled)
    await one.requester.answered.get()
    assert one.delivery.cancelled.empty()
    release.set()
    assert await one.due(cancelled) == frozenset()
    assert one.delivery.cancelled.qsize() == 1
    assert one.delivery.delivered.qsize() == 1


async def test_a_request_repeated_during_the_answer_is_answered_again(one: Bench) -> None:
    """To the new origin."""
    first, release = asyncio.Event(), asyncio.Event()
    answered: list[Origin] = []

    async def answer(task: Task) -> None:
        answered.append(task.request.origin)
        first.set()
        await release.wait()

    one.requester.answer = answer  # type: ignore[method-assign]
    ended = await one.stored(Cancel("alice"))
    one.effects.start_due(ended)
    await first.wait()
    elsewhere = Origin("cis", {"event_id": "$2"})
    again = replace(ended, version=ended.version + 1, request=ended.request.resubmitted(elsewhere))
    async with one.database.transaction() as connection:
        assert await one.store.store_step(connection, again, 1)
    one.effects.start_due(again)
    release.set()
    assert await one.due(again) == frozenset()
    assert answered == [ended.request.origin, elsewhere]


async def test_progress_is_forwarded_in_order(one: Bench) -> None:
    """Of many pending messages the newest are sent. A message that fails is lost, and the next one is
    sent."""
    blocked, release = asyncio.Event(), asyncio.Event()
    heard: list[int] = []

    async def progress(task: Task, content: Mapping[str, Any]) -> None:
        blocked.set()
        await release.wait()
        if content["n"] == MAX_PENDING_PROGRESS:
            raise ConnectionError
        heard.append(content["n"])

    one.requester.progress = progress  # type: ignore[method-assign]
    task = await one.stored(Accept())
    one.effects.send_progress(task, {"n": 0})
    await blocked.wait()
    for number in range(1, MAX_PENDING_PROGRESS + 11):
        one.effects.send_progress(task, {"n": number})
    release.set()
    while not one.effects.is_idle:
        await asyncio.sleep(0.005)
    assert heard == [0, *(n for n in range(11, MAX_PENDING_PROGRESS + 11) if n != MAX_PENDING_PROGRESS)]
    assert len(one.observer.problems) == 1


async def test_the_answer_follows_the_progress(one: Bench) -> None:
    """However long the progress messages take."""
    release = asyncio.Event()
    heard: list[str] = []

    async def progress(task: Task, content: Mapping[str, Any]) -> None:
        await release.wait()
        heard.append("report")

    async def answer(task: Task) -> None:
        heard.append("answer")

    one.requester.progress = progress  # type: ignore[method-assign]
    one.requester.answer = answer  # type: ignore[method-assign]
    ended = await one.stored(Accept(), Cancel("alice"))
    one.effects.send_progress(ended, {"n": 0})
    one.effects.start_due(ended)
    await one.watcher.seen.get()
    await one.delivery.cancelled.get()
    release.set()
    await one.due(ended)
    assert heard == ["report", "answer"]


async def test_acknowledgements_are_written_at_the_end(one: Bench) -> None:
    """An orderly stop repeats nothing."""
    accepted = await one.stored(Accept())
    one.effects.start_due(accepted, {Due.DELIVER})
    await one.delivery.delivered.get()
    await one.effects.close()
    known = await one.store.load(accepted.key)
    assert known is not None
    assert known.due == {Due.SHOW}
