"""Tasks, the progress that agents report, and the desks that work on them.

A step is taken by an update that names the version it was decided upon, so that of two processes one takes
it. A process_number is a process; it holds a lease on its number as long as its session lives, and the tasks of one
whose lock can be taken are anybody's.

Lists of tasks, for whoever looks around.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import asyncpg

from storage.database import Connection
from storage.rooms.stream import ReaderPosition, ReaderReplaced
from storage.statements import load

SQL = load("storage.agents", "tasks.sql")


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
    process_number: int | None


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
    process_number: int | None


class LoadRow(NamedTuple):
    """How many tasks an agent has, how many wait for it, and one of the former."""

    active: int
    waiting: int
    current_task: str | None


AgentCapacity: TypeAlias = tuple[int, int]
"""How many tasks an agent takes at once, and how many more may wait for it."""


class AcceptResult(NamedTuple):
    """No id: the request was made before, or the agent has another load than was assumed. `load` is what it
    has, where that was counted."""

    id: int | None
    load: LoadRow | None


class ProgressRow(NamedTuple):
    number: int
    at: int
    content: bytes


# ---- steps -------------------------------------------------------------------------------------------


async def accept_task(
    connection: Connection,
    row: TaskRow,
    room: AgentCapacity | None = None,
    place: ReaderPosition | None = None,
) -> AcceptResult:
    """Store a new task, whose own id is not looked at, if its agent has room for it. `room` is None where
    that does not matter. The place of a reader is advanced by the same statement; raises `ReaderReplaced`."""
    at_once, waiting = room or (None, None)
    try:
        found = await connection.fetchrow(
            SQL.accept_task, *row[1:], at_once, waiting, *(place or (None, None, None))
        )
    except asyncpg.RaiseError:
        raise ReaderReplaced(row.request_id if place is None else place[0]) from None
    assert found is not None, "it says what became of it"
    return AcceptResult(found[0], None if room is None else LoadRow(*found[1:]))


async def step_task(connection: Connection, row: StepRow) -> bool:
    """Whether the version upon which it was decided is still the newest, so that it is taken."""
    taken: bool | None = await connection.fetchval(SQL.step_task, *row)
    return taken is not None


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


async def lock_load(connection: Connection, address: str) -> LoadRow:
    """It stays so until the transaction ends: until then this is the one that gives the agent tasks."""
    row = await connection.fetchrow(SQL.lock_load, address)
    assert row is not None, "counting gives a row"
    return LoadRow(*row)


async def fetch_load(connection: Connection, address: str) -> LoadRow:
    row = await connection.fetchrow(SQL.fetch_load, address)
    assert row is not None, "counting gives a row"
    return LoadRow(*row)


async def fetch_first_queued(connection: Connection, address: str) -> TaskRow | None:
    row = await connection.fetchrow(SQL.fetch_first_queued, address)
    return None if row is None else TaskRow(*row)


async def list_agents_with_queues(connection: Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_agents_with_queues)]


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


async def next_process_number(connection: Connection) -> int:
    """A number that no other process_number has."""
    process_number: int = await connection.fetchval(SQL.next_process_number)
    return process_number


async def list_processes(connection: Connection) -> list[int]:
    """Those that have something left to do."""
    return [row[0] for row in await connection.fetch(SQL.list_processes)]


async def list_tasks_of_process(
    connection: Connection, process_number: int, after: int, limit: int
) -> list[TaskRow]:
    rows = await connection.fetch(SQL.list_tasks_of_process, process_number, after, limit)
    return [TaskRow(*row) for row in rows]


async def list_due_tasks_of_process(
    connection: Connection, process_number: int, after: int, limit: int
) -> list[TaskRow]:
    """Those of which something has not been done yet."""
    rows = await connection.fetch(SQL.list_due_tasks_of_process, process_number, after, limit)
    return [TaskRow(*row) for row in rows]


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


class TaskSummary(NamedTuple):
    id: int
    requester_node: str
    request_id: str
    task_id: str
    from_agent: str
    to_agent: str
    origin: str
    state: str
    elsewhere: bool
    received_at: int
    started_at: int | None
    finished_at: int | None
    deadline: int
    error_code: str | None


@dataclass(frozen=True, slots=True)
class TaskSearch:
    """What is None is not looked at. `agent` is the one that has to do it, by its address or its id alone;
    `requester` an agent in the same way, a node, or a protocol. `before` is a task's number in the database.
    """

    agent: str | None = None
    requester: str | None = None
    states: Sequence[str] | None = None
    before: int | None = None


async def search_tasks(connection: Connection, wanted: TaskSearch, limit: int) -> list[TaskSummary]:
    """The newest first."""
    rows = await connection.fetch(
        SQL.search_tasks, wanted.agent, wanted.requester, wanted.states, wanted.before, limit
    )
    return [TaskSummary(*row) for row in rows]
