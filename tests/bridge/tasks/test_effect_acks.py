"""Finished effects are remembered, and written to the database in batches."""

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
    """A task with a delivery and an update for people due."""
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
    """The effects that are due according to the database."""
    known = await store.load(task.key)
    assert known is not None
    return known.due


async def test_acknowledgements_are_written_in_batches(database: Database) -> None:
    """Those that are pending at the end are written then."""
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


async def test_acknowledgements_of_an_older_step_are_dropped(database: Database) -> None:
    """A later step says what is due. Effects that are done once per task stay done, even if a later step has
    them due."""
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
    # It says nothing about a later step.
    acks.record(over, Due.ANSWER)
    acks.record(task, Due.SHOW)
    assert acks._pending[task.id] == (over.version, {Due.ANSWER})


async def test_acknowledgements_are_written_after_an_outage(database: Database) -> None:
    """Nothing is lost while Postgres is unavailable."""
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


async def test_acknowledgements_are_written_after_an_error(database: Database) -> None:
    """An error does not end the background task."""
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
