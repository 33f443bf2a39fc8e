"""Tasks in the database and in the cache."""

from dataclasses import replace

import pytest

from bridge.tasks.answer import Answer, failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import Accept, Due, Message, Result, Start
from bridge.tasks.queue_settings import Load
from bridge.tasks.request import Origin, TaskKey
from bridge.tasks.store import TaskStore, row_of, same_work, storable, task_of
from bridge.tasks.task import Task, receive
from storage.database import Database
from storage.rooms.stream import begin_term, list_cursors
from tests.support.tasks import request

NOW = 10**12
TASK = Task(
    request(
        prompt="a\0b – ä",
        context="Rust project",
        system_prompt="You are a developer",
        model="m",
        metadata={"a": [1, {"b": None}]},
    ),
    NOW,
    NOW + 300_000,
)
FAILURE = failure(TaskError(ErrorCode.TIMEOUT, "too slow", {"x": 1}))


def then(task: Task, *messages: Message) -> Task:
    for message in messages:
        task = receive(task, message, NOW + 1).task
    return task


@pytest.mark.parametrize(
    "task",
    [
        TASK,
        then(TASK, Accept()),
        then(TASK, Accept(), Start("agent-1", NOW + 5)),
        then(TASK, Accept(), Start("agent-1"), Result(Answer(True, "done\0", 0, {"t": 1}))),
        replace(then(TASK, Accept(), Start("agent-1"), Result(FAILURE)), asked=3, elsewhere=True),
    ],
)
def test_a_task_is_read_as_it_was_written(task: Task) -> None:
    """Everything but the requested timeout, which has become the deadline."""
    assert task_of(row_of(task, 7)) == task


def test_a_finished_task_has_no_process() -> None:
    """Otherwise it would be taken over again and again."""
    done = then(TASK, Accept(), Start("agent-1"), Result(FAILURE))
    assert row_of(done, 7).process_number == 7
    assert row_of(replace(done, due=frozenset()), 7).process_number is None
    assert row_of(replace(then(TASK, Accept()), due=frozenset()), 7).process_number == 7


async def test_the_cache_has_the_newest_version(database: Database) -> None:
    """A step evicts the task until its transaction is committed."""
    store = TaskStore(database)
    async with database.transaction() as connection:
        task, _ = await store.accept(connection, then(TASK, Accept()), 7)
    assert task is not None
    assert store.cached(task.key) is None
    store.cache(task)
    assert store.cached(task.key) == task
    started = then(task, Start("agent-1"))
    async with database.transaction() as connection:
        assert await store.store_step(connection, started, 7)
        assert store.cached(task.key) is None
    store.cache(started)
    store.cache(task)
    assert store.cached(task.key) == started
    assert await store.load(task.key) == started
    async with database.transaction() as connection:
        assert not await store.store_step(connection, started, 7), "it is not the next one"
    store.evict(task.key)
    assert store.cached(task.key) is None


async def test_a_task_is_stored_with_the_position_of_a_reader(database: Database) -> None:
    """And the agent's load is returned."""
    store = TaskStore(database)
    task = then(TASK, Accept())
    async with database.transaction() as connection:
        term = await begin_term(connection, "reader", 0)
        new, load = await store.accept(connection, task, 7, (1, 0), ("reader", term, 1))
        assert new is not None
        assert load == Load()
        assert await store.fetch(connection, task.key) == new
        assert await connection.fetchval("SELECT desk FROM tasks WHERE id = $1", new.id) == 7
        assert await list_cursors(connection) == {"reader": 1}
        other = then(replace(TASK, request=request("other")), Accept())
        busy = None, Load(1, 0, task.request.task_id)
        assert await store.accept(connection, other, 7, (1, 0), ("reader", term, 2)) == busy
        assert await list_cursors(connection) == {"reader": 1}
        ended = then(new, Start("agent-1", NOW + 5), Result(FAILURE)).replace(version=new.version + 1)
        assert await store.store_step(connection, ended, 8)
        assert await store.fetch(connection, task.key) == ended
        assert await connection.fetchval("SELECT desk FROM tasks WHERE id = $1", new.id) == 8


async def test_a_finished_effect_is_not_due_in_the_next_step(database: Database) -> None:
    """Although the database is updated later."""
    store = TaskStore(database)
    task = then(TASK, Accept())
    store.cache(task)
    store.mark_done(task, Due.SHOW)
    known = store.cached(task.key)
    assert known is not None
    assert known.due == {Due.DELIVER}
    store.mark_done(replace(task, version=1), Due.DELIVER)
    assert store.cached(task.key) == known, "another step was taken since"
    store.mark_done(replace(task, request=request("other")), Due.SHOW)


async def test_the_cache_is_bounded(database: Database) -> None:
    """By the size of the tasks."""
    store = TaskStore(database, cache_bytes=10_000)
    for number in range(10):
        store.cache(replace(TASK, request=request(str(number), prompt="x" * 3_000)))
    kept = [number for number in range(10) if store.cached(TaskKey("living", str(number)))]
    assert kept == [8, 9]


async def test_names_that_cannot_be_stored_have_no_task(database: Database) -> None:
    """Requesters choose them."""
    store = TaskStore(database)
    assert await store.load(TaskKey("living", "a\0b")) is None
    assert await store.load(TaskKey("\ud800", "a")) is None
    assert [storable(text) for text in ("ä", "", "\0", "\ud800")] == [True, True, False, False]


def test_a_repetition_has_the_same_work() -> None:
    """Its origin may differ."""
    one = request()
    assert same_work(one, request(origin=Origin("people", {})))
    assert same_work(one, request(timeout_ms=5))
    for other in (request(prompt="x"), request(to="other@here"), request(task_id="x"), request(model="m")):
        assert not same_work(one, other)
