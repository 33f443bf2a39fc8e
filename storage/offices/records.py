"""Records of what happens in offices, in order, and of the messages by which their rooms show it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage.offices", "records.sql")

NOT_ACCEPTED = ""
"""Stored in place of an event id when the room does not accept the message."""


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
    """The position of the first record shown by the same message, once that is decided."""


class CallRow(NamedTuple):
    """`answer` and `answered_at` are None while the call has no answer."""

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
    """Records whose message has not been sent, grouped by office, each office's oldest first."""
    return [RecordRow(*row) for row in await connection.fetch(SQL.fetch_unsent, limit)]


async def assign_messages(connection: Connection, messages: Mapping[int, int]) -> None:
    """Assign records to messages: the positions of the records, and for each the position of the first record
    of its message."""
    await connection.execute(SQL.assign_messages, list(messages), list(messages.values()))


async def mark_sent(connection: Connection, positions: Collection[int], event_id: str) -> None:
    await connection.execute(SQL.mark_sent, list(positions), event_id)


async def set_call_event(connection: Connection, call_id: str, event_id: str) -> None:
    """Store the message that shows a call whose message another node sends."""
    await connection.execute(SQL.set_call_event, call_id, event_id)


async def has_unsent_membership_changes(connection: Connection, office_id: str) -> bool:
    """Whether a member has joined or left and the room's message about it has not been sent."""
    found: bool = await connection.fetchval(SQL.has_unsent_membership_changes, office_id)
    return found


async def fetch_office_of_event(connection: Connection, event_id: str) -> str | None:
    office_id: str | None = await connection.fetchval(SQL.fetch_office_of_event, event_id)
    return office_id


async def fetch_call_of_event(connection: Connection, event_id: str) -> str | None:
    """The call that this message shows, or None if it shows none or several."""
    call_id: str | None = await connection.fetchval(SQL.fetch_call_of_event, event_id)
    return call_id


async def fetch_call(connection: Connection, call_id: str) -> list[RecordRow]:
    """A list with the record of the call, or an empty one."""
    return [RecordRow(*row) for row in await connection.fetch(SQL.fetch_call, call_id)]


async def fetch_answer(connection: Connection, call_id: str) -> bytes | None:
    """The record of the answer, or None while there is none."""
    body: bytes | None = await connection.fetchval(SQL.fetch_answer, call_id)
    return body


async def fetch_call_event(connection: Connection, call_id: str) -> str | None:
    event_id: str | None = await connection.fetchval(SQL.fetch_call_event, call_id)
    return event_id


class PresentMember(NamedTuple):
    """A member who has joined and not left: the record of the join, and its position."""

    office_id: str
    position: int
    body: bytes


async def fetch_present_members(connection: Connection) -> list[PresentMember]:
    """The present members of all offices, in the order in which they joined."""
    return [PresentMember(*row) for row in await connection.fetch(SQL.fetch_present_members)]


async def fetch_present_members_of_office(connection: Connection, office_id: str) -> list[PresentMember]:
    """The present members of one office, in the order in which they joined."""
    return [
        PresentMember(office_id, *row) for row in await connection.fetch(SQL.fetch_present_members_of_office, office_id)
    ]


async def lock_office(connection: Connection, office_id: str) -> None:
    """Lock the office until the transaction ends; waits for another holder."""
    await connection.execute(SQL.lock_office, office_id)


async def is_unanswered(connection: Connection, call_id: str) -> bool:
    found: bool = await connection.fetchval(SQL.is_unanswered, call_id)
    return found


async def fetch_unanswered(connection: Connection) -> list[tuple[str, str, bytes]]:
    """(office id, call id, record) of each call without an answer, oldest first."""
    return [(row[0], row[1], row[2]) for row in await connection.fetch(SQL.fetch_unanswered)]


async def list_calls(connection: Connection, office_id: str | None, before: int | None, limit: int) -> list[CallRow]:
    return [CallRow(*row) for row in await connection.fetch(SQL.list_calls, office_id, before, limit)]


async def prune(connection: Connection, made_before: int, limit: int) -> int:
    """Delete up to `limit` older records, and return their number."""
    deleted: int = await connection.fetchval(SQL.prune, made_before, limit)
    return deleted
