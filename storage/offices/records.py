"""What happens in offices, in its order; and which of it their rooms have been told."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.offices", "records.sql")

NOT_ACCEPTED = ""
"""In place of an event: the room does not take it."""


class NewRecord(NamedTuple):
    """`body` is JSON."""

    office_id: str
    kind: str
    call_id: str | None
    body: bytes
    at_ms: int


class RecordRow(NamedTuple):
    position: int
    office_id: str
    kind: str
    call_id: str | None
    body: bytes
    at_ms: int
    message_position: int | None = None


class CallRow(NamedTuple):
    """`answer` and `answered_at` are None while there is none."""

    position: int
    office_id: str
    call_id: str
    call: bytes
    at_ms: int
    answer: bytes | None
    answered_at: int | None


async def insert_records(connection: Connection, records: Sequence[NewRecord]) -> None:
    await connection.execute(SQL.insert_records, *map(list, zip(*records, strict=True)))


async def fetch_unsent(connection: Connection, limit: int) -> list[RecordRow]:
    """Of each office the oldest first, and all that is wanted of one before another."""
    return [RecordRow(*row) for row in await connection.fetch(SQL.fetch_unsent, limit)]


async def assign_messages(connection: Connection, messages: Mapping[int, int]) -> None:
    """In which message each of these is told."""
    await connection.execute(SQL.assign_messages, list(messages), list(messages.values()))


async def mark_sent(connection: Connection, positions: Collection[int], event_id: str) -> None:
    await connection.execute(SQL.mark_sent, list(positions), event_id)


async def set_call_event(connection: Connection, call_id: str, event_id: str) -> None:
    """Which message shows people a call of which this node tells no room."""
    await connection.execute(SQL.set_call_event, call_id, event_id)


async def has_unsent_membership_changes(connection: Connection, office_id: str) -> bool:
    """Whether somebody has come or gone of whom the room has not heard."""
    found: bool = await connection.fetchval(SQL.has_unsent_membership_changes, office_id)
    return found


async def fetch_office_of_event(connection: Connection, event_id: str) -> str | None:
    office_id: str | None = await connection.fetchval(SQL.fetch_office_of_event, event_id)
    return office_id


async def fetch_call_of_event(connection: Connection, event_id: str) -> str | None:
    """The one call that this message is about."""
    call_id: str | None = await connection.fetchval(SQL.fetch_call_of_event, event_id)
    return call_id


async def fetch_call(connection: Connection, call_id: str) -> list[RecordRow]:
    """None or one."""
    return [RecordRow(*row) for row in await connection.fetch(SQL.fetch_call, call_id)]


async def fetch_answer(connection: Connection, call_id: str) -> bytes | None:
    """What was written down of it; None while there is none."""
    body: bytes | None = await connection.fetchval(SQL.fetch_answer, call_id)
    return body


async def fetch_call_event(connection: Connection, call_id: str) -> str | None:
    event_id: str | None = await connection.fetchval(SQL.fetch_call_event, call_id)
    return event_id


class PresentMember(NamedTuple):
    """Somebody who has joined and not left: what was written down of the join, and as how much."""

    office_id: str
    position: int
    body: bytes


async def fetch_present_members(connection: Connection) -> list[PresentMember]:
    """Everybody; who came first is first."""
    return [PresentMember(*row) for row in await connection.fetch(SQL.fetch_present_members)]


async def fetch_present_members_of_office(connection: Connection, office_id: str) -> list[PresentMember]:
    """The same of one office."""
    return [
        PresentMember(office_id, *row)
        for row in await connection.fetch(SQL.fetch_present_members_of_office, office_id)
    ]


async def lock_office(connection: Connection, office_id: str) -> None:
    """In a transaction, until it ends: waits until nobody else has the office for itself."""
    await connection.execute(SQL.lock_office, office_id)


async def is_unanswered(connection: Connection, call_id: str) -> bool:
    found: bool = await connection.fetchval(SQL.is_unanswered, call_id)
    return found


async def fetch_unanswered(connection: Connection) -> list[tuple[str, str, bytes]]:
    """Of every call that has no answer: the office, its id, and what was written down of it. The oldest
    first."""
    return [(row[0], row[1], row[2]) for row in await connection.fetch(SQL.fetch_unanswered)]


async def list_calls(
    connection: Connection, office_id: str | None, before: int | None, limit: int
) -> list[CallRow]:
    return [CallRow(*row) for row in await connection.fetch(SQL.list_calls, office_id, before, limit)]


async def prune(connection: Connection, made_before: int, limit: int) -> int:
    """Forget up to `limit` that are older; how many they were."""
    forgotten: int = await connection.fetchval(SQL.prune, made_before, limit)
    return forgotten
