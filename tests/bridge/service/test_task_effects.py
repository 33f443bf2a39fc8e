"""What is due of tasks is done, and it is remembered that it was."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bridge.retry import RetryPolicy
from bridge.service.task_effects import MOST_PROGRESS, MOST_TOGETHER, Ports, TaskEffects
from bridge.service.task_store import TaskStore
from bridge.task import Task, receive
from bridge.task_error import ErrorCode, TaskError
from bridge.task_messages import Accept, Cancel, Due, Error, Message, Unreachable
from bridge.task_ports import Delivered, DeliveryOutcome, NotHere, NotNow, Rejected
from bridge.task_request import Origin, TaskKey
from storage.database import Database
from tests.support.agents import NOW, registered, routing_table
from tests.support.desk import Courier, Notebook, Onlooker, Requester, request

QUICK = RetryPolicy(max_retries=2, base_delay_ms=1)


@dataclass
class Bench:
    effects: TaskEffects
    store: TaskStore
    database: Database
    courier: Courier
    requester: Requester
    onlooker: Onlooker
    notebook: Notebook
    happened: list[Message] = field(default_factory=list)
    not_here: list[TaskKey] = field(default_factory=list)

    async def stored(self, *messages: Message, **changed: Any) -> Task:
        """A task that has gone through all that."""
        task = Task(request(**changed), NOW, NOW + 300_000)
        for message in messages:
            task = receive(task, message, NOW).task
        async with self.database.transaction() as connection:
            stored = await self.store.insert(connection, task, 1)
        assert stored is not None
        return stored

    async def due(self, task: Task) -> frozenset[Due]:
        """As the database has it, when nothing is under way any more."""
        while self.effects._lanes or self.effects._ticks._waiting or self.effects._ticks._telling.locked():
            await asyncio.sleep(0.005)
        known = await self.store.load(task.key)
        assert known is not None
        return known.due


@contextlib.asynccontextmanager
async def bench(database: Database, **changed: Any) -> AsyncIterator[Bench]:
    async with routing_table(database) as routes:
        await routes.take([registered("worker@here")])
        store = TaskStore(database)
        courier, requester = Courier(), Requester()
        onlooker, notebook = Onlooker(), Notebook()
        ports = {
            "deliveries": {"cis": courier},
            "replies": {"cis": requester},
            "routes": routes,
            "observer": notebook,
            "watcher": onlooker,
            "retry": QUICK,
        }

        async def happened(key: TaskKey, message: Message) -> None:
            one.happened.append(message)

        not_here: list[TaskKey] = []
        effects = TaskEffects(
            database,
            store,
            Ports(**{**ports, **changed}),
            happened=happened,
            not_here=not_here.append,
        )
        one = Bench(effects, store, database, courier, requester, onlooker, notebook, not_here=not_here)
        effects.start()
        try:
            yield one
        finally:
            await effects.close()


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Bench]:
    async with bench(database) as one:
        yield one


async def test_what_is_due_is_done_and_no_longer_due(one: Bench) -> None:
    """Each thing by whoever it concerns."""
    accepted = await one.stored(Accept())
    one.effects.do(accepted)
    assert await one.due(accepted) == frozenset()
    assert await one.courier.delivered.get() == accepted
    assert await one.onlooker.seen.get() == accepted
    cancelled = await one.stored(Accept(), Cancel("alice"), key=TaskKey("living", "b"))
    one.effects.do(cancelled)
    assert await one.due(cancelled) == frozenset()
    assert await one.courier.cancelled.get() == cancelled
    assert await one.requester.answered.get() == cancelled


async def test_only_what_is_wanted_is_done(one: Bench) -> None:
    """Another process may be at the rest."""
    accepted = await one.stored(Accept())
    one.effects.do(accepted, {Due.DELIVER})
    assert await one.due(accepted) == {Due.SHOW}


async def test_whoever_waits_is_answered_before_people_are_shown(database: Database) -> None:
    """They are shown the last of the steps that follow each other, and what was not shown stays due."""
    async with bench(database, shown_after=3_600.0) as one:
        over = await one.stored(Accept(), Cancel("alice"))
        one.effects.do(over)
        assert (await one.requester.answered.get()).key == over.key
        assert one.onlooker.seen.empty()
    known = await one.store.load(over.key)
    assert known is not None
    assert Due.SHOW in known.due


class Crowd(Onlooker):
    """Is shown many at once."""

    def __init__(self) -> None:
        super().__init__()
        self.together: list[Task] = []
        self.fails = False
        self.going, self.release = asyncio.Event(), asyncio.Event()
        self.release.set()

    async def show_all(self, tasks: Sequence[Task]) -> None:
        self.going.set()
        await self.release.wait()
        if self.fails:
            raise ConnectionError("too many")
        self.together += tasks


async def test_people_are_shown_many_tasks_together(database: Database) -> None:
    """Each once, in their order, however many there are; of each the last of its steps."""
    crowd = Crowd()
    async with bench(database, shown_after=0.01, watcher=crowd) as one:
        keys = [TaskKey("living", f"r{number}") for number in range(MOST_TOGETHER + 3)]
        accepted = [await one.stored(Accept(), key=key) for key in keys]
        for task in accepted:
            one.effects.do(task, {Due.SHOW})
        assert all([Due.SHOW not in await one.due(task) for task in accepted])
    assert crowd.together == accepted
    assert crowd.seen.empty()


async def test_where_nobody_looks_on_nothing_is_shown(database: Database) -> None:
    """And nothing stays due for it."""
    async with bench(database, shown_after=0.01, watcher=None) as one:
        accepted = await one.stored(Accept())
        one.effects.do(accepted, {Due.SHOW})
        assert await one.due(accepted) == {Due.DELIVER}
    assert one.notebook.problems == []


async def test_what_cannot_be_shown_together_is_shown_alone(database: Database) -> None:
    """One that fails is no harm to the others."""
    crowd = Crowd()
    crowd.fails = True
    async with bench(database, shown_after=0.01, watcher=crowd) as one:
        accepted = [await one.stored(Accept(), key=TaskKey("living", name)) for name in "ab"]
        for task in accepted:
            one.effects.do(task, {Due.SHOW})
        assert all([Due.SHOW not in await one.due(task) for task in accepted])
    assert {crowd.seen.get_nowait().key for _ in accepted} == {task.key for task in accepted}
    assert any("together" in problem for problem in one.notebook.problems)


async def test_what_has_gone_on_while_it_was_shown_is_shown_again(database: Database) -> None:
    """What people see last is how it stands."""
    crowd = Crowd()
    crowd.release.clear()
    async with bench(database, shown_after=0.01, watcher=crowd) as one:
        accepted = await one.stored(Accept())
        one.effects.do(accepted, {Due.SHOW})
        await crowd.going.wait()
        over = receive(accepted, Cancel("alice"), NOW).task
        async with one.database.transaction() as connection:
            assert await one.store.step(connection, over, 1)
        one.effects.do(over, {Due.SHOW})
        crowd.release.set()
        assert Due.SHOW not in await one.due(over)
    assert crowd.together == [accepted, over]


async def test_a_thing_is_done_once_at_a_time(one: Bench) -> None:
    """However often it is asked for meanwhile."""
    accepted = await one.stored(Accept())
    for _ in range(5):
        one.effects.do(accepted)
    await one.courier.delivered.get()
    one.effects.do(accepted)
    await one.due(accepted)
    assert one.courier.delivered.empty()


@pytest.mark.parametrize("failure", [NotNow("away"), ConnectionError(), TimeoutError()])
async def test_what_fails_is_tried_again(one: Bench, failure: DeliveryOutcome | Exception) -> None:
    """By the policy; what a connector raises is a failure like another."""
    one.courier.outcomes = [failure, failure, Delivered()]
    accepted = await one.stored(Accept())
    one.effects.do(accepted)
    assert await one.due(accepted) == frozenset()
    assert one.courier.delivered.qsize() == 3
    assert one.happened == []


async def test_what_takes_too_long_is_tried_again(one: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up, and nothing of it goes on."""
    monkeypatch.setattr("bridge.service.task_effects.PATIENCE", 0.01)
    given_up = asyncio.Event()
    deliver = one.courier.deliver

    async def never(task: Task) -> DeliveryOutcome:
        one.courier.deliver = deliver  # type: ignore[method-assign]
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        raise AssertionError("nobody waits for it any more")

    one.courier.deliver = never  # type: ignore[method-assign]
    accepted = await one.stored(Accept())
    one.effects.do(accepted, {Due.DELIVER})
    assert await one.due(accepted) == {Due.SHOW}
    assert given_up.is_set()
    assert one.courier.delivered.qsize() == 1


async def test_a_delivery_that_goes_on_failing_ends_the_task(one: Bench) -> None:
    """What it failed with last is the reason."""
    one.courier.outcomes = [NotNow("one"), NotNow("two"), NotNow("three")]
    accepted = await one.stored(Accept())
    one.effects.do(accepted)
    assert Due.DELIVER in await one.due(accepted)
    assert one.happened == [Unreachable("three")]


async def test_an_answer_that_goes_on_failing_stays_due(one: Bench) -> None:
    """It is found by the next sweep."""
    one.requester.failures = 3
    cancelled = await one.stored(Cancel("alice"))
    one.effects.do(cancelled)
    assert await one.due(cancelled) == {Due.ANSWER}
    assert "tried again" in one.notebook.problems[-1]
    one.effects.do(cancelled)
    assert await one.due(cancelled) == frozenset()


async def test_a_refused_delivery_is_not_tried_again(one: Bench) -> None:
    """The error is the task's."""
    error = TaskError(ErrorCode.AGENT_BUSY, "no")
    one.courier.outcomes = [Rejected(error)]
    one.effects.do(accepted := await one.stored(Accept()))
    await one.due(accepted)
    assert one.happened == [Error(error)]


@pytest.mark.parametrize("announce", [True, False])
async def test_what_another_process_has_to_do_stays_due_and_is_told(one: Bench, announce: bool) -> None:
    """Once: whoever is told does not tell it back."""
    one.courier.outcomes = [NotHere()]
    accepted = await one.stored(Accept())
    one.effects.do(accepted, announce=announce)
    assert await one.due(accepted) == {Due.DELIVER}
    assert one.not_here == ([accepted.key] if announce else [])


async def test_a_connector_that_is_not_there(database: Database) -> None:
    """Another process may have it: nothing is lost for want of one here."""
    async with bench(database, deliveries={}, replies={}, watcher=None) as one:
        accepted = await one.stored(Accept())
        one.effects.do(accepted)
        assert await one.due(accepted) == {Due.DELIVER}
        cancelled = await one.stored(Accept(), Cancel("alice"), key=TaskKey("living", "b"))
        one.effects.do(cancelled)
        assert await one.due(cancelled) == {Due.CANCEL, Due.ANSWER}
        one.effects.say(cancelled, {"percent": 1})
        assert one.notebook.problems == []


async def test_a_delivery_is_not_repeated_for_a_task_that_is_over(one: Bench) -> None:
    """It was cancelled between two attempts; the agent is told after the attempt."""
    going, release = asyncio.Event(), asyncio.Event()

    async def deliver(task: Task) -> DeliveryOutcome:
        one.courier.delivered.put_nowait(task)
        going.set()
        await release.wait()
        return NotNow("away")

    one.courier.deliver = deliver  # type: ignore[method-assign]
    accepted = await one.stored(Accept())
    one.effects.do(accepted)
    await going.wait()
    cancelled = receive(accepted, Cancel("alice"), NOW).task
    async with one.database.transaction() as connection:
        assert await one.store.step(connection, cancelled, 1)
    one.effects.do(cancelled)
    await one.requester.answered.get()
    assert one.courier.cancelled.empty()
    release.set()
    assert await one.due(cancelled) == frozenset()
    assert one.courier.cancelled.qsize() == 1
    assert one.courier.delivered.qsize() == 1


async def test_an_answer_is_given_again_when_it_was_asked_for_meanwhile(one: Bench) -> None:
    """At the other place."""
    first, release = asyncio.Event(), asyncio.Event()
    answered: list[Origin] = []

    async def answer(task: Task) -> None:
        answered.append(task.request.origin)
        first.set()
        await release.wait()

    one.requester.answer = answer  # type: ignore[method-assign]
    ended = await one.stored(Cancel("alice"))
    one.effects.do(ended)
    await first.wait()
    elsewhere = Origin("cis", {"event_id": "$2"})
    again = replace(ended, version=ended.version + 1, request=ended.request.asked_again(elsewhere))
    async with one.database.transaction() as connection:
        assert await one.store.step(connection, again, 1)
    one.effects.do(again)
    release.set()
    assert await one.due(again) == frozenset()
    assert answered == [ended.request.origin, elsewhere]


async def test_reports_are_passed_on_in_their_order(one: Bench) -> None:
    """Of many that come at once the newest; one that fails is lost, and the next one comes."""
    blocked, release = asyncio.Event(), asyncio.Event()
    heard: list[int] = []

    async def progress(task: Task, content: Mapping[str, Any]) -> None:
        blocked.set()
        await release.wait()
        if content["n"] == MOST_PROGRESS:
            raise ConnectionError
        heard.append(content["n"])

    one.requester.progress = progress  # type: ignore[method-assign]
    task = await one.stored(Accept())
    one.effects.say(task, {"n": 0})
    await blocked.wait()
    for number in range(1, MOST_PROGRESS + 11):
        one.effects.say(task, {"n": number})
    release.set()
    while one.effects._talking:
        await asyncio.sleep(0.005)
    assert heard == [0, *(n for n in range(11, MOST_PROGRESS + 11) if n != MOST_PROGRESS)]
    assert len(one.notebook.problems) == 1


async def test_an_answer_comes_after_the_reports_before_it(one: Bench) -> None:
    """However long these take to be passed on."""
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
    one.effects.say(ended, {"n": 0})
    one.effects.do(ended)
    await one.onlooker.seen.get()
    await one.courier.cancelled.get()
    release.set()
    await one.due(ended)
    assert heard == ["report", "answer"]


async def test_what_was_done_is_remembered_at_the_end(one: Bench) -> None:
    """A stop in good order repeats nothing."""
    accepted = await one.stored(Accept())
    one.effects.do(accepted, {Due.DELIVER})
    await one.courier.delivered.get()
    while one.effects._lanes:
        await asyncio.sleep(0)
    await one.effects.close()
    known = await one.store.load(accepted.key)
    assert known is not None
    assert known.due == {Due.SHOW}


# ---- a head start ------------------------------------------------------------------------------------


class Quick(Courier):
    """One that makes ready what it has to say; `Reply`, too."""

    def __init__(self) -> None:
        super().__init__()
        self.made: asyncio.Queue[Task] = asyncio.Queue()
        self.fails = False

    def make_ready(self, task: Task) -> None:
        self.made.put_nowait(task)
        if self.fails:
            raise ValueError("it cannot be made")

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None: ...

    async def answer(self, task: Task) -> None: ...


async def test_what_is_to_be_said_is_made_ready_in_the_next_turn(database: Database) -> None:
    """Whoever brings a task makes it ready before it is due, whoever answers does before it is answered, and
    not before the statement that stores the step has gone out. What fails then fails when it is done."""
    courier, replies = Quick(), Quick()
    courier.fails = True
    async with bench(database, deliveries={"cis": courier}, replies={"cis": replies}) as one:
        accepted = receive(Task(request(), NOW, NOW + 300_000), Accept(), NOW).task
        answered = receive(accepted, Cancel("alice"), NOW).task
        for task, by, other in [(accepted, courier, replies), (answered, replies, courier)]:
            one.effects.make_ready(task)
            assert by.made.empty()
            assert await by.made.get() is task
            assert other.made.empty()
        shown = accepted.changed(due=frozenset({Due.SHOW}))
        nobody = accepted.changed(request=request(to="nobody@here"))
        strange = answered.changed(request=request(origin=Origin("unknown", {})))
        for task in (shown, nobody, strange):
            one.effects.make_ready(task)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert courier.made.empty()
        assert replies.made.empty()
        assert one.notebook.problems == []
        assert courier.delivered.empty()


async def test_who_makes_nothing_ready_is_not_asked(one: Bench) -> None:
    """It is a capability."""
    one.effects.make_ready(receive(Task(request(), NOW, NOW + 300_000), Accept(), NOW).task)
    accepted = await one.stored(Accept())
    one.effects.do(accepted)
    assert await one.courier.delivered.get() == accepted
    assert one.notebook.problems == []
