"""What people see of tasks: which messages belong to which, and what was said once in a room.

The events themselves are found again under the transaction ids that they are sent with. What is kept here
leads from a message to its task, for as long as somebody may still answer there.
"""

from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.people", "people.sql")


class ShownRow(NamedTuple):
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
    sign: str | None
    sign_event: str | None
    progress: str | None
    answer: str | None
    withdrawn_by: str | None
    made_at: int


async def insert_shown(connection: Connection, row: ShownRow) -> None:
    """What is known of the task already stays."""
    await connection.execute(SQL.insert_shown, *row)


async def keep_shown(connection: Connection, row: ShownRow) -> ShownRow:
    """The same, and what is known of the task now."""
    known = await connection.fetchrow(SQL.keep_shown, *row)
    assert known is not None, "it is there now"
    return ShownRow(*known)


async def fetch_shown(connection: Connection, task: int) -> ShownRow | None:
    row = await connection.fetchrow(SQL.fetch_shown, task)
    return None if row is None else ShownRow(*row)


async def find_shown(connection: Connection, room_id: str, event_id: str, limit: int) -> list[ShownRow]:
    """The tasks to which a message belongs: it asks for them, begins their thread, reports on them or answers
    them. The newest first."""
    return [ShownRow(*row) for row in await connection.fetch(SQL.find_shown, room_id, event_id, limit)]


async def set_sign(connection: Connection, task: int, sign: str | None, event_id: str | None) -> None:
    await connection.execute(SQL.set_sign, task, sign, event_id)


async def set_progress(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_progress, task, event_id)


async def set_answer(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_answer, task, event_id)


async def withdraw(connection: Connection, task: int, event_id: str) -> str | None:
    """By which event it is withdrawn now: another one may have been before. None: it is not known."""
    by: str | None = await connection.fetchval(SQL.withdraw, task, event_id)
    return by


async def set_cancelled(connection: Connection, task: int, event_id: str) -> None:
    await connection.execute(SQL.set_cancelled, task, event_id)


async def is_cancelled_by(connection: Connection, task: int, event_id: str) -> bool:
    """Whether this is the event that has taken it back last."""
    return await connection.fetchval(SQL.is_cancelled_by, task, event_id) is True


async def prune_shown(connection: Connection, made_before: int, limit: int) -> int:
    """Forget up to `limit` that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune_shown, made_before, limit)
    return forgotten


async def was_said(connection: Connection, room_id: str, what: str) -> bool:
    return await connection.fetchval(SQL.was_said, room_id, what) is not None


async def insert_said(connection: Connection, room_id: str, what: str) -> None:
    await connection.execute(SQL.insert_said, room_id, what)
