"""Tasks, their steps, queues and processes."""

import asyncio

import asyncpg
import pytest

from storage.agents import tasks
from storage.agents.tasks import LoadRow, ProgressRow, StepRow, TaskRow
from storage.database import Database
from storage.rooms import stream as consumers
from storage.rooms.stream import ReaderPosition, ReaderReplaced

TASK = TaskRow(
    id=0,
    requester_node="living",
    request_id="req-1",
    task_id="task-1",
    from_agent="coordinator@living",
    to_agent="worker@here",
    elsewhere=False,
    content=b'{"prompt":"a\\u0000b"}',
    origin="cis",
    reference=b"{}",
    asked=1,
    state="accepted",
    version=1,
    received_at=5,
    deadline=300_005,
    started_at=None,
    finished_at=None,
    runner=None,
    lease_until=None,
    error_code=None,
    answer=None,
    due=["deliver", "show"],
    process_number=7,
)


async def insert(database: Database, row: TaskRow) -> TaskRow:
    number = await accept(database, row)
    assert number is not None
    return row._replace(id=number)


async def fetch(database: Database, row: TaskRow) -> TaskRow:
    async with database.transaction() as connection:
        found = await tasks.fetch_task(connection, row.requester_node, row.request_id)
    assert found is not None
    return found


def step_to(row: TaskRow) -> StepRow:
    changed = {name: value for name, value in row._asdict().items() if name in StepRow._fields}
    return StepRow(before=row.version - 1, **changed)


async def update(database: Database, row: TaskRow) -> bool:
    async with database.transaction() as connection:
        return await tasks.step_task(connection, step_to(row))


def ended(row: TaskRow, **changed: object) -> TaskRow:
    done = {"state": "done", "finished_at": 9, "answer": b"{}", "due": ["answer"]}
    return row._replace(version=row.version + 1, **{**done, **changed})


async def test_a_request_id_of_a_node_is_one_task(database: Database) -> None:
    """Another node may use the same request id."""
    stored = await insert(database, TASK)
    assert await fetch(database, stored) == stored
    async with database.transaction() as connection:
        assert (await tasks.accept_task(connection, TASK._replace(task_id="other"))) == (None, None)
        assert await tasks.fetch_task(connection, "living", "req-2") is None
    await insert(database, TASK._replace(requester_node="attic"))


async def test_a_step_is_written_once(database: Database) -> None:
    """Of two steps decided on the same version one is written, in whatever order they are committed."""
    stored = await insert(database, TASK)
    started = stored._replace(version=2, state="running", started_at=6, runner="process_number-7", due=["show"])
    rival = stored._replace(version=2, state="running", started_at=6, runner="process_number-8", due=["show"])
    assert sorted(await asyncio.gather(update(database, started), update(database, rival))) == [False, True]
    found = await fetch(database, stored)
    assert found in [started, rival]
    finished = ended(found, error_code="TIMEOUT", asked=2, origin="people", reference=b"[1]", lease_until=4)
    assert await update(database, finished)
    assert await fetch(database, stored) == finished
    assert not await update(database, finished)


# ---- tasks read from the stream ----------------------------------------------------------------------


async def begin_reading(database: Database) -> int:
    async with database.transaction() as connection:
        return await consumers.begin_term(connection, "reader", 0)


async def position(database: Database) -> int:
    async with database.transaction() as connection:
        return (await consumers.list_cursors(connection))["reader"]


async def accept(
    database: Database, row: TaskRow, at_once: int | None = None, place: ReaderPosition | None = None
) -> int | None:
    room = None if at_once is None else (at_once, 1)
    async with database.autocommit() as connection:
        return (await tasks.accept_task(connection, row, room, place)).id


async def test_a_task_and_the_readers_position_are_written_together(database: Database) -> None:
    """Nothing is written if the agent has no capacity, has queued tasks, or the request is a duplicate.
    Without a capacity the load does not matter."""
    term = await begin_reading(database)
    number = await accept(database, TASK, 1, ("reader", term, 5))
    assert number is not None
    assert await fetch(database, TASK) == TASK._replace(id=number)
    assert await position(database) == 5
    other = TASK._replace(request_id="req-2")
    assert await accept(database, other, 1, ("reader", term, 6)) is None, "it has no room"
    assert await accept(database, TASK, 9, ("reader", term, 6)) is None, "it was asked for before"
    assert await position(database) == 5
    assert await accept(database, other, 2, ("reader", term, 6)) is not None
    await insert(database, TASK._replace(request_id="req-3", state="queued"))
    last = TASK._replace(request_id="req-4")
    assert await accept(database, last, 9, ("reader", term, 7)) is None, "another one waits"
    assert await accept(database, last, None, ("reader", term, 7)) is not None
    assert await position(database) == 7


async def test_a_replaced_reader_stores_no_task(database: Database) -> None:
    """The new reader reads its event again."""
    before = await begin_reading(database)
    term = await begin_reading(database)
    with pytest.raises(ReaderReplaced):
        await accept(database, TASK, 1, ("reader", before, 5))
    assert await position(database) == 0
    assert await accept(database, TASK, 1, ("reader", term, 5)) is not None
    with pytest.raises(ReaderReplaced):
        await accept(database, TASK._replace(request_id="req-2"), 9, ("reader", term, 4))


async def test_concurrent_readers_respect_the_agents_capacity(database: Database) -> None:
    """Whichever processes read the requests."""
    term = await begin_reading(database)
    rows = [TASK._replace(request_id=f"of-{number}") for number in range(12)]
    accepted = await asyncio.gather(*(accept(database, row, 3, ("reader", term, 5)) for row in rows))
    assert len([one for one in accepted if one is not None]) == 3


@pytest.mark.parametrize("is_kept", [True, False])
async def test_the_load_is_counted_after_the_previous_transaction(database: Database, is_kept: bool) -> None:
    """Another process fills the agent's last free slot while the statement is already running."""
    term = await begin_reading(database)
    async with database.connection() as other:
        transaction = other.transaction()
        await transaction.start()
        assert await tasks.lock_load(other, TASK.to_agent) == LoadRow(0, 0, None)
        await tasks.accept_task(other, TASK._replace(requester_node="attic"))
        accepting = asyncio.create_task(accept(database, TASK, 1, ("reader", term, 5)))
        await is_waiting_for_lock(database)
        await (transaction.commit() if is_kept else transaction.rollback())
    assert (await accepting is None) == is_kept


async def is_waiting_for_lock(database: Database) -> None:
    """Whether a session waits for an advisory lock."""
    async with database.connection() as looking:
        while not await looking.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'"
        ):
            await asyncio.sleep(0.01)


async def test_a_refused_task_returns_the_load(database: Database) -> None:
    """So that the caller can decide again."""
    async with database.autocommit() as connection:
        assert (await tasks.accept_task(connection, TASK, (1, 0))).load == LoadRow(0, 0, None)
        waiting = TASK._replace(request_id="req-2", task_id="task-2", state="queued")
        assert await tasks.accept_task(connection, waiting, (1, 0)) == (None, LoadRow(1, 0, "task-1"))
        assert (await tasks.accept_task(connection, waiting, (1, 1))).id is not None
        last = waiting._replace(request_id="req-3")
        assert await tasks.accept_task(connection, last, (1, 1)) == (None, LoadRow(1, 1, "task-1"))
        assert await tasks.accept_task(connection, last) != (None, None)


@pytest.mark.parametrize("wrong", [{"state": "lost"}, {"state": "done"}, {"finished_at": 3}, {"error_code": "OOPS"}])
async def test_invalid_rows_are_refused_by_the_database(database: Database, wrong: dict[str, object]) -> None:
    """An ended task needs an end time, and only five error codes exist."""
    with pytest.raises(asyncpg.CheckViolationError):
        await insert(database, TASK._replace(**wrong))


async def test_performed_effects_are_no_longer_due(database: Database) -> None:
    """Unless a step was written meanwhile. A task that has ended and has nothing due belongs to no
    process."""
    one = await insert(database, TASK)
    two = ended(await insert(database, TASK._replace(request_id="req-2")), due=["answer", "cancel"])
    three = ended(await insert(database, TASK._replace(request_id="req-3")))
    assert await update(database, two)
    assert await update(database, three)
    async with database.transaction() as connection:
        await tasks.clear_due(connection, [])
        await tasks.clear_due(
            connection, [(one.id, 1, ["deliver"]), (two.id, 2, ["cancel", "x"]), (three.id, 1, ["answer"])]
        )
    assert await fetch(database, one) == one._replace(due=["show"])
    assert await fetch(database, two) == two._replace(due=["answer"])
    assert await fetch(database, three) == three
    async with database.transaction() as connection:
        await tasks.clear_due(connection, [(one.id, 1, ["show"]), (two.id, 2, ["answer"])])
    assert await fetch(database, one) == one._replace(due=[]), "it has not ended"
    assert await fetch(database, two) == two._replace(due=[], process_number=None)


async def test_tasks_are_found_by_either_id(database: Database) -> None:
    """By request id or task id."""
    one = await insert(database, TASK)
    two = await insert(database, TASK._replace(requester_node="attic", to_agent="other@here"))
    three = await insert(database, TASK._replace(request_id="task-1", from_agent="other@here"))
    async with database.transaction() as connection:
        assert await tasks.find_tasks(connection, "req-1", 9) == [two, one]
        assert await tasks.find_tasks(connection, "task-1", 2) == [three, two]
        assert await tasks.list_tasks(connection, agent="other@here") == [three, two]
        assert await tasks.list_tasks(connection, states=["running"]) == []
        assert await tasks.list_tasks(connection, states=["accepted"], before=three.id) == [two, one]
        assert await tasks.list_tasks(connection, limit=1) == [three]


async def test_the_load_counts_active_and_queued_tasks(database: Database) -> None:
    """Ended tasks do not count, nor tasks that another node runs."""
    waiting = TASK._replace(state="queued", due=[])
    first = await insert(database, waiting._replace(request_id="q1"))
    await insert(database, waiting._replace(request_id="q2"))
    running = await insert(database, TASK._replace(request_id="r", state="running"))
    await insert(database, TASK._replace(request_id="e", elsewhere=True))
    done = await insert(database, TASK._replace(request_id="d"))
    await update(database, ended(done))
    async with database.transaction() as connection:
        await tasks.lock_load(connection, "worker@here")
        assert await tasks.fetch_load(connection, "worker@here") == LoadRow(1, 2, "task-1")
        assert await tasks.fetch_load(connection, "nobody@here") == LoadRow(0, 0, None)
        assert await tasks.fetch_first_queued(connection, "worker@here") == first
        assert await tasks.fetch_first_queued(connection, "nobody@here") is None
        assert await tasks.list_agents_with_queues(connection) == ["worker@here"]
        live = await tasks.list_live_of_agents(connection, ["worker@here", "nobody@here"], 0, 9)
        assert await tasks.list_live_of_agents(connection, ["worker@here"], live[0].id, 2) == live[1:3]
        assert [row.request_id for row in live] == ["q1", "q2", "r", "e"]
        assert running in live
        asked = await tasks.list_live_of_requester(connection, TASK.requester_node, 0, 9)
        assert asked == live
        assert await tasks.list_live_of_requester(connection, TASK.requester_node, live[0].id, 2) == live[1:3]
        assert await tasks.list_live_of_requester(connection, "nobody", 0, 9) == []


async def test_locking_the_load_waits_for_another_transaction(database: Database) -> None:
    """Other agents are not affected."""
    order: list[str] = []
    inside = asyncio.Event()

    async def second() -> None:
        async with database.transaction() as connection:
            await tasks.lock_load(connection, "v@here")
            inside.set()
            await tasks.lock_load(connection, "w@here")
            order.append("second")

    async with database.transaction() as connection:
        await tasks.lock_load(connection, "w@here")
        waiting = asyncio.create_task(second())
        await inside.wait()
        order.append("first")
    await waiting
    assert order == ["first", "second"]


async def test_the_tasks_of_an_ended_process_are_found(database: Database) -> None:
    """Page by page, and those with due effects separately."""
    for number in range(3):
        await insert(database, TASK._replace(request_id=f"a{number}", process_number=7))
    await insert(database, TASK._replace(request_id="b", process_number=9))
    await insert(database, TASK._replace(request_id="c", process_number=None))
    async with database.connection() as connection:
        assert await tasks.list_processes(connection) == [7, 9]
        first = await tasks.list_tasks_of_process(connection, 7, 0, 2)
        rest = await tasks.list_tasks_of_process(connection, 7, first[-1].id, 2)
        assert [row.request_id for row in [*first, *rest]] == ["a0", "a1", "a2"]
        await connection.execute("UPDATE tasks SET due = '{}' WHERE request_id = 'a1'")
        due = await tasks.list_due_tasks_of_process(connection, 7, 0, 9)
        assert [row.request_id for row in due] == ["a0", "a2"]
        assert await tasks.list_due_tasks_of_process(connection, 7, due[0].id, 1) == [due[1]]
        assert await tasks.next_process_number(connection) != await tasks.next_process_number(connection)


async def test_only_the_newest_progress_is_kept(database: Database) -> None:
    """An agent may report for hours."""
    one = await insert(database, TASK)
    async with database.transaction() as connection:
        numbers = [await tasks.insert_progress(connection, one.id, at, b"{}", 3) for at in range(5)]
        assert numbers == [1, 2, 3, 4, 5]
        assert await tasks.list_progress(connection, one.id) == [
            ProgressRow(number, number - 1, b"{}") for number in (3, 4, 5)
        ]
        assert [row.number for row in await tasks.list_progress(connection, one.id, 4)] == [5]
        assert await tasks.step_task(connection, step_to(ended(one)))
        assert await tasks.insert_progress(connection, one.id, 9, b"{}", 3) is None


async def test_concurrent_reports_are_numbered(database: Database) -> None:
    """One after the other."""
    one = await insert(database, TASK)

    async def report(at: int) -> int | None:
        async with database.transaction() as connection:
            return await tasks.insert_progress(connection, one.id, at, b"{}", 100)

    assert sorted(filter(None, await asyncio.gather(*map(report, range(8))))) == list(range(1, 9))


async def test_old_tasks_are_pruned(database: Database) -> None:
    """In batches, with their progress; also those whose answer could never be delivered."""
    for number in range(3):
        stored = await insert(database, TASK._replace(request_id=f"old-{number}"))
        async with database.transaction() as connection:
            await tasks.insert_progress(connection, stored.id, 1, b"{}", 3)
        assert await update(database, ended(stored, due=[], process_number=None))
    due = await insert(database, TASK._replace(request_id="due"))
    assert await update(database, ended(due, finished_at=99))
    young = await insert(database, TASK._replace(request_id="young"))
    assert await update(database, ended(young, finished_at=100, due=[], process_number=None))
    live = await insert(database, TASK._replace(request_id="live"))
    async with database.transaction() as connection:
        assert [await tasks.prune(connection, 100, 2) for _ in range(3)] == [2, 2, 0]
        left = await tasks.list_tasks(connection)
        assert [row.id for row in left] == [live.id, young.id]
        assert await connection.fetchval("SELECT count(*) FROM task_progress") == 0
