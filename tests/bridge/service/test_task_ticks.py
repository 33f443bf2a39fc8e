"""What was done of tasks is remembered, and the database is told."""

import asyncio
from dataclasses import replace

from bridge.service.task_store import TaskStore
from bridge.service.task_ticks import TaskTicks
from bridge.task import Task, receive
from bridge.task_messages import Accept, Due
from bridge.task_request import TaskKey
from storage.database import Database
from tests.support.agents import NOW
from tests.support.desk import request

LONG = 3_600.0


async def accepted(database: Database, store: TaskStore, name: str = "a") -> Task:
    """With a delivery that is due, and people who are to be shown it."""
    task = receive(Task(request(key=TaskKey("living", name)), NOW, NOW + 300_000), Accept(), NOW).task
    async with database.transaction() as connection:
        stored = await store.insert(connection, task, 1)
    assert stored is not None
    return stored


async def due(store: TaskStore, task: Task) -> frozenset[Due]:
    """As the database has it."""
    known = await store.load(task.key)
    assert known is not None
    return known.due


async def test_what_was_done_is_told_together(database: Database) -> None:
    """Of all tasks, at the end at the latest."""
    store = TaskStore(database)
    ticks = TaskTicks(database, store, LONG)
    ticks.start()
    one, other = await accepted(database, store), await accepted(database, store, "b")
    ticks.done(one, Due.DELIVER)
    ticks.done(one, Due.SHOW)
    ticks.done(other, Due.SHOW)
    assert ticks.was_done(one, Due.SHOW)
    assert not ticks.was_done(other, Due.DELIVER)
    assert await due(store, one) == {Due.DELIVER, Due.SHOW}
    await ticks.close()
    assert (await due(store, one), await due(store, other)) == (frozenset(), {Due.DELIVER})


async def test_what_was_done_of_an_older_step_is_not_ticked_off(database: Database) -> None:
    """The database would not hear of it: the step that followed says what is due. What is done once is
    taken on, and is known to be done however often a step says that it is due."""
    ticks = TaskTicks(database, TaskStore(database), LONG)
    task = await accepted(database, TaskStore(database))
    ticks.done(task, Due.DELIVER)
    ticks.done(task, Due.SHOW)
    again = replace(task, version=task.version + 1)
    ticks.leave_out_older(again)
    assert ticks.was_done(again, Due.DELIVER)
    assert not ticks.was_done(again, Due.SHOW)
    assert ticks._waiting[task.id] == (again.version, {Due.DELIVER})
    over = replace(again, version=again.version + 1, due=frozenset())
    ticks.leave_out_older(over)
    assert task.id not in ticks._waiting
    # Of a step that another one has followed it says nothing.
    ticks.done(over, Due.ANSWER)
    ticks.done(task, Due.SHOW)
    assert ticks._waiting[task.id] == (over.version, {Due.ANSWER})


async def test_what_could_not_be_told_is_told_later(database: Database) -> None:
    """Nothing of it is lost while Postgres is away."""
    store = TaskStore(database)
    ticks = TaskTicks(database, store, 0.01)
    task = await accepted(database, store)
    ticks.start()
    try:
        async with database.connection() as other:
            await other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        ticks.done(task, Due.SHOW)
        while ticks._waiting or ticks._telling.locked():
            await asyncio.sleep(0.005)
        assert await due(store, task) == {Due.DELIVER}
    finally:
        await ticks.close()


async def test_what_postgres_refuses_is_reported_and_told_later(database: Database) -> None:
    """A mistake ends nothing: whoever can mend it hears of it, and what waits is told afterwards."""
    reported: list[str] = []
    told = asyncio.Event()

    def report(sentence: str, error: BaseException | None) -> None:
        reported.append(f"{sentence} {type(error).__name__}")
        told.set()

    store = TaskStore(database)
    ticks = TaskTicks(database, store, 0.01, report)
    task = await accepted(database, store)
    ticks.start()
    try:
        async with database.connection() as other:
            await other.execute("ALTER TABLE tasks RENAME COLUMN due TO undue")
            ticks.done(task, Due.SHOW)
            await told.wait()
            await other.execute("ALTER TABLE tasks RENAME COLUMN undue TO due")
        while ticks._waiting or ticks._telling.locked():
            await asyncio.sleep(0.005)
        assert await due(store, task) == {Due.DELIVER}
    finally:
        await ticks.close()
    assert reported[0] == (
        "What was done of tasks is not remembered, and may be done again. UndefinedColumnError"
    )
