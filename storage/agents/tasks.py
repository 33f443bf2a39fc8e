"""Tasks, the progress that agents report, and the processes that run tasks.

A step is written by an update that names the version of the task on which it was decided, so that only one of
two concurrent steps succeeds. Each process of a node has a number and holds a lease on it while its session
lives. If the lease can be taken by another process, that process takes over the tasks.
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
    """The columns of a task that a step may change, in the order of the statement's parameters. `before` is
    the version on which the step was decided."""

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
    """The number of active tasks of an agent, the number of its queued tasks, and one of the active tasks."""

    active: int
    waiting: int
    current_task: str | None


AgentCapacity: TypeAlias = tuple[int, int]
"""How many tasks an agent may have at once, and how many more may be queued for it."""


class AcceptResult(NamedTuple):
    """`id` is None if the request is a duplicate, or if the agent does not have the assumed load. `load` is
    the actual load, if it was counted."""

    id: int | None
    load: LoadRow | None


class ProgressRow(NamedTuple):
    number: int
    at: int
    content: bytes


# ---- steps -------------------------------------------------------------------------------------------


async def accept_task(
    connection: Connection, row: TaskRow, capacity: AgentCapacity | None = None, position: ReaderPosition | None = None
) -> AcceptResult:
    """Store a new task, ignoring `row.id`, if its agent has capacity for it; without `capacity` this is not
    checked. The same statement advances the reader to `position`. Raises `ReaderReplaced`."""
    at_once, queued = capacity or (None, None)
    try:
        found = await connection.fetchrow(SQL.accept_task, *row[1:], at_once, queued, *(position or (None, None, None)))
    except asyncpg.RaiseError:
        raise ReaderReplaced(row.request_id if position is None else position[0]) from None
    assert found is not None, "the statement always returns a row"
    return AcceptResult(found[0], None if capacity is None else LoadRow(*found[1:]))


async def step_task(connection: Connection, row: StepRow) -> bool:
    """Write a step. False if the version on which it was decided is no longer the current one."""
    written: bool | None = await connection.fetchval(SQL.step_task, *row)
    return written is not None


async def clear_due(connection: Connection, done: Sequence[tuple[int, int, Sequence[str]]]) -> None:
    """Remove effects that have been performed from `due`, for entries of (id, version, effects). Each id may
    occur once. An entry whose version is no longer the current one is ignored."""
    if done:
        ids, versions, effects = zip(*done, strict=True)
        await connection.execute(SQL.clear_due, list(ids), list(versions), [" ".join(due) for due in effects])


# ---- finding -----------------------------------------------------------------------------------------


async def fetch_task(connection: Connection, requester_node: str, request_id: str) -> TaskRow | None:
    row = await connection.fetchrow(SQL.fetch_task, requester_node, request_id)
    return None if row is None else TaskRow(*row)


async def find_tasks(connection: Connection, name: str, limit: int) -> list[TaskRow]:
    """Find tasks by request id or task id, newest first."""
    return [TaskRow(*row) for row in await connection.fetch(SQL.find_tasks, name, limit)]


async def find_tasks_by_beginning(connection: Connection, beginnings: Sequence[str], limit: int) -> list[TaskRow]:
    """Find tasks whose request id or task id begins with one of these texts, newest first. This reads the
    whole table."""
    return [TaskRow(*row) for row in await connection.fetch(SQL.find_tasks_by_beginning, list(beginnings), limit)]


async def list_tasks(
    connection: Connection,
    *,
    agent: str | None = None,
    states: Sequence[str] | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[TaskRow]:
    """The newest tasks first. `agent` matches the requester and the target, `before` is a row id. A filter
    that is None matches all."""
    return [TaskRow(*row) for row in await connection.fetch(SQL.list_tasks, agent, states, before, limit)]


# ---- an agent's queue --------------------------------------------------------------------------------


async def lock_load(connection: Connection, address: str) -> LoadRow:
    """Count the agent's tasks, and lock the counts: until this transaction ends no other gives the agent a
    task."""
    row = await connection.fetchrow(SQL.lock_load, address)
    assert row is not None, "counting returns a row"
    return LoadRow(*row)


async def fetch_load(connection: Connection, address: str) -> LoadRow:
    row = await connection.fetchrow(SQL.fetch_load, address)
    assert row is not None, "counting returns a row"
    return LoadRow(*row)


async def fetch_first_queued(connection: Connection, address: str) -> TaskRow | None:
    row = await connection.fetchrow(SQL.fetch_first_queued, address)
    return None if row is None else TaskRow(*row)


async def list_agents_with_queues(connection: Connection) -> list[str]:
    return [row[0] for row in await connection.fetch(SQL.list_agents_with_queues)]


async def list_live_of_agents(
    connection: Connection, addresses: Iterable[str], after: int, limit: int
) -> list[TaskRow]:
    """The unfinished tasks of these agents with an id greater than `after`, ordered by id."""
    rows = await connection.fetch(SQL.list_live_of_agents, list(addresses), after, limit)
    return [TaskRow(*row) for row in rows]


async def list_live_of_requester(connection: Connection, node_id: str, after: int, limit: int) -> list[TaskRow]:
    """The unfinished tasks that agents of the node have requested, with an id greater than `after`, ordered
    by id."""
    rows = await connection.fetch(SQL.list_live_of_requester, node_id, after, limit)
    return [TaskRow(*row) for row in rows]


# ---- processes ---------------------------------------------------------------------------------------


async def next_process_number(connection: Connection) -> int:
    """A number that no other process has had."""
    number: int = await connection.fetchval(SQL.next_process_number)
    return number


async def list_processes(connection: Connection) -> list[int]:
    """The numbers of the processes that have tasks."""
    return [row[0] for row in await connection.fetch(SQL.list_processes)]


async def list_tasks_of_process(connection: Connection, process_number: int, after: int, limit: int) -> list[TaskRow]:
    rows = await connection.fetch(SQL.list_tasks_of_process, process_number, after, limit)
    return [TaskRow(*row) for row in rows]


async def list_due_tasks_of_process(
    connection: Connection, process_number: int, after: int, limit: int
) -> list[TaskRow]:
    """The tasks of the process with effects that are still due."""
    rows = await connection.fetch(SQL.list_due_tasks_of_process, process_number, after, limit)
    return [TaskRow(*row) for row in rows]


# ---- progress ----------------------------------------------------------------------------------------


async def insert_progress(connection: Connection, task: int, at: int, content: bytes, most: int) -> int | None:
    """Store a progress report and return its number, or None if the task has ended. Only the `most` newest
    reports are kept."""
    if not await connection.fetchval(SQL.lock_live, task):
        return None
    number: int = await connection.fetchval(SQL.insert_progress, task, at, content)
    if number > most:
        await connection.execute(SQL.prune_progress, task, number - most)
    return number


async def list_progress(connection: Connection, task: int, after: int = 0) -> list[ProgressRow]:
    return [ProgressRow(*row) for row in await connection.fetch(SQL.list_progress, task, after)]


# ---- pruning and searching ---------------------------------------------------------------------------


async def prune(connection: Connection, finished_before: int, limit: int) -> int:
    """Delete up to `limit` tasks that ended earlier, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune, finished_before, limit)
    return deleted


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
    """A filter that is None matches all. `agent` is the target, by its address or its id; `requester` is an
    agent, likewise, or a node, or a protocol. `before` is a row id.
    """

    agent: str | None = None
    requester: str | None = None
    states: Sequence[str] | None = None
    before: int | None = None


async def search_tasks(connection: Connection, search: TaskSearch, limit: int) -> list[TaskSummary]:
    """The matching tasks, newest first."""
    rows = await connection.fetch(SQL.search_tasks, search.agent, search.requester, search.states, search.before, limit)
    return [TaskSummary(*row) for row in rows]
