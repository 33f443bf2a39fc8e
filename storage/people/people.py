"""The messages by which people see tasks, and the notices that were sent to a room once.

These tables lead from a message to its task for as long as people may still reply there. The events
themselves are found again by the transaction ids under which they were sent.
"""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.people", "people.sql")


class TaskMessagesRow(NamedTuple):
    """In the order of the table's columns."""

    task: int
    requester_node: str
    request_id: str
    agent: str
    room_id: str
    root: str
    request: str
    asked_by: str | None
    is_threaded: bool
    reaction: str | None
    reaction_event: str | None
    progress: str | None
    answer: str | None
    withdrawn_by: str | None
    made_at: int


async def insert_task_messages(connection: Connection, row: TaskMessagesRow) -> None:
    """Insert the messages of a task. An existing row stays as it is."""
    await connection.execute(SQL.insert_task_messages, *row)


async def insert_or_fetch_task_messages(connection: Connection, row: TaskMessagesRow) -> TaskMessagesRow:
    """Insert the messages of a task, or return the existing row."""
    stored = await connection.fetchrow(SQL.insert_or_fetch_task_messages, *row)
    assert stored is not None, "the statement always returns a row"
    return TaskMessagesRow(*stored)


async def fetch_task_messages(connection: Connection, task: int) -> TaskMessagesRow | None:
    row = await connection.fetchrow(SQL.fetch_task_messages, task)
    return None if row is None else TaskMessagesRow(*row)


async def find_task_messages(connection: Connection, room_id: str, event_id: str, limit: int) -> list[TaskMessagesRow]:
    """The tasks to which a message belongs, newest first: it requests the task, starts its thread, reports
    progress or answers it."""
    return [TaskMessagesRow(*row) for row in await connection.fetch(SQL.find_task_messages, room_id, event_id, limit)]


async def set_reaction(connection: Connection, task: int, reaction: str | None, event_id: str | None) -> None:
    await connection.execute(SQL.set_reaction, task, reaction, event_id)


async def set_progress(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_progress, task, event_id)


async def set_answer(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_answer, task, event_id)


async def set_withdrawn(connection: Connection, task: int, event_id: str) -> str | None:
    """Record the event that withdraws the task, and return the event that withdrew it first. None if the task
    is unknown."""
    withdrawn_by: str | None = await connection.fetchval(SQL.set_withdrawn, task, event_id)
    return withdrawn_by


async def set_cancelled(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_cancelled, task, event_id)


async def is_cancelled_by(connection: Connection, task: int, event_id: str) -> bool:
    """Whether this event is the last one that cancelled the task."""
    return await connection.fetchval(SQL.is_cancelled_by, task, event_id) is True


async def prune_task_messages(connection: Connection, made_before: int, limit: int) -> int:
    """Delete up to `limit` older rows, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune_task_messages, made_before, limit)
    return deleted


async def is_notice_sent(connection: Connection, room_id: str, notice: str) -> bool:
    return await connection.fetchval(SQL.is_notice_sent, room_id, notice) is not None


async def insert_sent_notice(connection: Connection, room_id: str, notice: str) -> None:
    await connection.execute(SQL.insert_sent_notice, room_id, notice)
