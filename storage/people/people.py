"""What people see of tasks: which messages belong to which, and what was said once in a room.

The events themselves are found again under the transaction ids that they are sent with. What is kept here
leads from a message to its task, for as long as somebody may still answer there.
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
    """What is known of the task already stays."""
    await connection.execute(SQL.insert_task_messages, *row)


async def insert_or_fetch_task_messages(connection: Connection, row: TaskMessagesRow) -> TaskMessagesRow:
    """The same, and what is known of the task now."""
    known = await connection.fetchrow(SQL.insert_or_fetch_task_messages, *row)
    assert known is not None, "it is there now"
    return TaskMessagesRow(*known)


async def fetch_task_messages(connection: Connection, task: int) -> TaskMessagesRow | None:
    row = await connection.fetchrow(SQL.fetch_task_messages, task)
    return None if row is None else TaskMessagesRow(*row)


async def find_task_messages(
    connection: Connection, room_id: str, event_id: str, limit: int
) -> list[TaskMessagesRow]:
    """The tasks to which a message belongs: it asks for them, begins their thread, reports on them or answers
    them. The newest first."""
    return [
        TaskMessagesRow(*row)
        for row in await connection.fetch(SQL.find_task_messages, room_id, event_id, limit)
    ]


async def set_reaction(connection: Connection, task: int, reaction: str | None, event_id: str | None) -> None:
    await connection.execute(SQL.set_reaction, task, reaction, event_id)


async def set_progress(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_progress, task, event_id)


async def set_answer(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_answer, task, event_id)


async def set_withdrawn(connection: Connection, task: int, event_id: str) -> str | None:
    """By which event it is withdrawn now: another one may have been before. None: it is not known."""
    by: str | None = await connection.fetchval(SQL.set_withdrawn, task, event_id)
    return by


async def set_cancelled(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_cancelled, task, event_id)


async def is_cancelled_by(connection: Connection, task: int, event_id: str) -> bool:
    """Whether this is the event that has taken it back last."""
    return await connection.fetchval(SQL.is_cancelled_by, task, event_id) is True


async def prune_task_messages(connection: Connection, made_before: int, limit: int) -> int:
    """Forget up to `limit` that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_task_messages, made_before, limit)
    return forgotten


async def is_notice_sent(connection: Connection, room_id: str, what: str) -> bool:
    return await connection.fetchval(SQL.is_notice_sent, room_id, what) is not None


async def insert_sent_notice(connection: Connection, room_id: str, what: str) -> None:
    await connection.execute(SQL.insert_sent_notice, room_id, what)
