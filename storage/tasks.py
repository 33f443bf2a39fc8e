"""Tasks, the progress that agents report, and the desks that work on them.

A step is taken by an update that names the version it was decided upon, so that of two processes one takes
it. A desk is a process; it holds a lock on its number as long as its session lives, and the tasks of one
whose lock can be taken are anybody's.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import asyncpg

from storage.consumers import Place, TakenOver
from storage.database import Connection
from storage.statements import load

SQL = load("storage", "tasks.sql")

CHANNEL: Final = "palaver_tasks"


class TaskRow(NamedTuple):
    """In the order of the table's columns."""

    id: int
    requester_node: str
    request_id: str
    task_id: str
    from_agent: str
    to_agent: str
    elsewhere: bool
    content: bytes
    origin: str
    reference: bytes
    asked: int
    state: str
    version: int
    received_at: int
    deadline: int
    started_at: int | None
    finished_at: int | None
    runner: str | None
    lease_until: int | None
    error_code: str | None
    answer: bytes | None
    due: Sequence[str]
    desk: int | None


class StepRow(NamedTuple):
    """What a step may change of a task, in the order of the statements that take it. `before` is the version
    upon which it was decided."""

    id: int
    before: int
    origin: str
    reference: bytes
    asked: int
    state: str
    started_at: int | None
    finished_at: int | None
    runner: str | None
    lease_until: int | None
    error_code: str | None
    answer: bytes | None
    due: Sequence[str]
    desk: int | None


class LoadRow(NamedTuple):
    """How many tasks an agent has, how many wait for it, and one of the former."""

    active: int
    waiting: int
    current_task: str | None


class ProgressRow(NamedTuple):
    number: int
    at: int
    content: bytes


# ---- steps -------------------------------------------------------------------------------------------


async def insert_task(connection: Connection, row: TaskRow) -> int | None:
    """Gives its id; None when there is one already under the same request id of the same node. The row's own
    id is not looked at."""
    task: int | None = await connection.fetchval(SQL.insert_task, *row[1:])
    return task


async def accept_task(connection: Connection, row: TaskRow, at_once: int | None, place: Place) -> int | None:
    """The same, of a task that its agent may have now, together with the place of the reader that read of it:
    by one statement. None, and nothing of it, also when the agent has no room for it or others wait;
    `at_once` is how many it takes, None for one that takes as many as come. Raises `TakenOver`."""
    try:
        task: int | None = await connection.fetchval(SQL.accept_task, *row[1:], at_once, *place)
    except asyncpg.RaiseError:
        raise TakenOver(place[0]) from None
    return task


async def update_task(connection: Connection, row: StepRow) -> bool:
    """Whether the version upon which it was decided is still the newest, so that it is taken."""
    taken: bool | None = await connection.fetchval(SQL.update_task, *row)
    return taken is not None


async def update_task_and_advance(connection: Connection, row: StepRow, place: Place) -> tuple[bool, bool]:
    """The same, together with the place of the reader that read of it: whether the step is taken, and whether
    the reader has come there, which it has not without the step."""
    found = await connection.fetchrow(SQL.update_task_and_advance, *row, *place)
    assert found is not None, "it says what became of it"
    return found[0], found[1]


async def clear_due(connection: Connection, done: Sequence[tuple[int, int, Sequence[str]]]) -> None:
    """Of (id, version, what was done). A version that is no longer the newest is left alone. Each id once."""
    if done:
        ids, versions, words = zip(*done, strict=True)
        await connection.execute(SQL.clear_due, list(ids), list(versions), [" ".join(due) for due in words])


# ---- finding -----------------------------------------------------------------------------------------


async def fetch_task(connection: Connection, requester_node: str, request_id: str) -> TaskRow | None:
    row = await connection.fetchrow(SQL.fetch_task, requester_node, request_id)
    return None if row is None else TaskRow(*row)


async def find_tasks(connection: Connection, name: str, limit: int) -> list[TaskRow]:
    """By their request's id or their own, the newest first."""
    return [TaskRow(*row) for row in await connection.fetch(SQL.find_tasks, name, limit)]


async def list_tasks(
    connection: Connection,
    *,
    agent: str | None = None,
    states: Sequence[str] | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[TaskRow]:
    """The newest first; `agent` gave or got them. `before` is an id. What is None is not looked at."""
    return [TaskRow(*row) for row in await connection.fetch(SQL.list_tasks, agent, states, before, limit)]


# ---- an agent's queue --------------------------------------------------------------------------------


async def lock_agent(connection: Connection, address: str) -> None:
    """Until the transaction ends, this is the one that gives the agent tasks."""
    await connection.execute(SQL.lock_agent, address)


async def fetch_load(connection: Connection, address: str) -> LoadRow:
    row = await connection.fetchrow(SQL.fetch_load, address)
    assert row is not None, "counting gives a row"
    return LoadRow(*row)


async def first_queued(connection: Connection, address: str) -> TaskRow | None:
    row = await connection.fetchrow(SQL.first_queued, address)
    return None if row is None else TaskRow(*row)


async def agents_with_queues(connection: Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.agents_with_queues)]


async def list_live_of_agents(
    connection: Connection, addresses: Iterable[str], after: int, limit: int
) -> list[TaskRow]:
    """Those with greater ids than one, in their order."""
    rows = await connection.fetch(SQL.list_live_of_agents, list(addresses), after, limit)
    return [TaskRow(*row) for row in rows]


async def list_live_of_requester(
    connection: Connection, node_id: str, after: int, limit: int
) -> list[TaskRow]:
    """That agents of this node have asked for; those with greater ids than one, in their order."""
    rows = await connection.fetch(SQL.list_live_of_requester, node_id, after, limit)
    return [TaskRow(*row) for row in rows]


# ---- desks -------------------------------------------------------------------------------------------


async def next_desk(connection: Connection) -> int:
    """A number that no other desk has."""
    desk: int = await connection.fetchval(SQL.next_desk)
    return desk


async def try_lock_desk(connection: Connection, desk: int) -> bool:
    """Whether this session has the desk now; it does until it says otherwise or ends, in whatever way."""
    locked: bool = await connection.fetchval(SQL.try_lock_desk, desk)
    return locked


async def unlock_desk(connection: Connection, desk: int) -> None:
    await connection.execute(SQL.unlock_desk, desk)


async def list_desks(connection: Connection) -> list[int]:
    """Those that have something left to do."""
    return [row[0] for row in await connection.fetch(SQL.list_desks)]


async def list_tasks_of_desk(connection: Connection, desk: int, after: int, limit: int) -> list[TaskRow]:
    rows = await connection.fetch(SQL.list_tasks_of_desk, desk, after, limit)
    return [TaskRow(*row) for row in rows]


async def list_due_of_desk(connection: Connection, desk: int, after: int, limit: int) -> list[TaskRow]:
    """Those of which something has not been done yet."""
    rows = await connection.fetch(SQL.list_due_of_desk, desk, after, limit)
    return [TaskRow(*row) for row in rows]


async def notify(connection: Connection, message: str) -> None:
    """Tell the other desks. Apart from the transaction that wrote: a transaction that notifies keeps all
    others that do from committing at the same time."""
    await connection.execute(SQL.notify, message)


# ---- progress ----------------------------------------------------------------------------------------


async def insert_progress(
    connection: Connection, task: int, at: int, content: bytes, most: int
) -> int | None:
    """Its number; None when the task has ended. Only the newest are kept."""
    if not await connection.fetchval(SQL.lock_live, task):
        return None
    number: int = await connection.fetchval(SQL.insert_progress, task, at, content)
    if number > most:
        await connection.execute(SQL.prune_progress, task, number - most)
    return number


async def list_progress(connection: Connection, task: int, after: int = 0) -> list[ProgressRow]:
    return [ProgressRow(*row) for row in await connection.fetch(SQL.list_progress, task, after)]


# ---- forgetting --------------------------------------------------------------------------------------


async def prune(connection: Connection, finished_before: int, limit: int) -> int:
    """Forget up to `limit` tasks that ended earlier; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune, finished_before, limit)
    return forgotten
