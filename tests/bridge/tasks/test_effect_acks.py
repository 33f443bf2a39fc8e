"""What was done of tasks is remembered, and the database is told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from bridge.tasks.effect_acks import EffectAcks
from bridge.tasks.messages import Accept, Due
from bridge.tasks.request import TaskKey
from bridge.tasks.store import TaskStore
from bridge.tasks.task import Task, receive
from storage.concurrency import BackgroundTasks
from storage.database import Database
from tests.support.agents import NOW
from tests.support.tasks import request

LONG = 3_600.0


async def accepted(database: Database, store: TaskStore, name: str = "a") -> Task:
    """With a delivery that is due, and people who are to be shown it."""
    task = receive(Task(request(key=TaskKey("living", name)), NOW, NOW + 300_000), Accept(), NOW).task
    async with database.transaction() as connection:
        stored, _ = await store.accept(connection, task, 1)
    assert stored is not None
    return stored


@contextlib.asynccontextmanager
async def ticking(database: Database, store: TaskStore, pause: float) -> AsyncIterator[EffectAcks]:
    background = BackgroundTasks()
    acks = EffectAcks(database, store, background, pause)
    acks.start()
    try:
        yield acks
    finally:
        await background.close()


async def due(store: TaskStore, task: Task) -> frozenset[Due]:
    """As the database has it."""
    known = await store.load(task.key)
    assert known is not None
    return known.due


async def test_what_was_done_is_told_together(database: Database) -> None:
    """Of all tasks, at the end at the latest."""
    store = TaskStore(database)
    acks = EffectAcks(database, store, BackgroundTasks(), LONG)
    one, other = await accepted(database, store), await accepted(database, store, "b")
    acks.record(one, Due.DELIVER)
    acks.record(one, Due.SHOW)
    acks.record(other, Due.SHOW)
    assert acks.is_done(one, Due.SHOW)
    assert not acks.is_done(other, Due.DELIVER)
    assert await due(store, one) == {Due.DELIVER, Due.SHOW}
    await acks.flush()
    assert (await due(store, one), await due(store, other)) == (frozenset(), {Due.DELIVER})


async def test_what_was_done_of_an_older_step_is_not_ticked_off(database: Database) -> None:
    """The database would not hear of it: the step that followed says what is due. What is done once is
    taken on, and is known to be done however often a step says that it is due."""
    acks = EffectAcks(database, TaskStore(database), BackgroundTasks(), LONG)
    task = await accepted(database, TaskStore(database))
    acks.record(task, Due.DELIVER)
    acks.record(task, Due.SHOW)
    again = replace(task, version=task.version + 1)
    acks.discard_outdated(again)
    assert acks.is_done(again, Due.DELIVER)
    assert not acks.is_done(again, Due.SHOW)
    assert acks._pending[task.id] == (again.version, {Due.DELIVER})
    over = replace(again, version=again.version + 1, due=frozenset())
    acks.discard_outdated(over)
    assert task.id not in acks._pending
    # Of a step that another one has followed it says nothing.
    acks.record(over, Due.ANSWER)
    acks.record(task, Due.SHOW)
    assert acks._pending[task.id] == (over.version, {Due.ANSWER})


async def test_what_could_not_be_told_is_told_later(database: Database) -> None:
    """Nothing of it is lost while Postgres is away."""
    store = TaskStore(database)
    async with ticking(database, store, 0.01) as acks:
        task = await accepted(database, store)
        async with database.connection() as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        acks.record(task, Due.SHOW)
        while not acks.is_idle:
            await asyncio.sleep(0.005)
        assert await due(store, task) == {Due.DELIVER}


async def test_what_postgres_refuses_is_told_later(database: Database) -> None:
    """A mistake ends nothing."""
    store = TaskStore(database)
    async with ticking(database, store, 0.01) as acks:
        task = await accepted(database, store)
        async with database.connection() as other:
            await other.execute("ALTER TABLE tasks RENAME COLUMN due TO undue")
            acks.record(task, Due.SHOW)
            with pytest.raises(asyncpg.UndefinedColumnError):
                await acks.flush()
            await other.execute("ALTER TABLE tasks RENAME COLUMN undue TO due")
        while not acks.is_idle:
            await asyncio.sleep(0.005)
        assert await due(store, task) == {Due.DELIVER}
