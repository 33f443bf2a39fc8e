"""What a homeserver sends to this node as its application service.

Its events have their order in `room_stream`, as those of a node that is a homeserver itself: one table of
positions and one of cursors, whichever side a node has.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "appservice_events.sql")


class NewEvent(NamedTuple):
    """In the order of the columns. `member` is of whom a member event speaks."""

    position: int
    event_id: str
    room_id: str
    member: str | None
    event: bytes


class KeptEvent(NamedTuple):
    """`is_redacted`: a redaction asks for it. `is_answered`: of the member whom it speaks of something newer
    is said in the room."""

    event_id: str
    event: bytes
    is_redacted: bool
    is_answered: bool


async def lock_registration(connection: Connection, registration: str) -> None:
    """Until the transaction ends, waiting for whoever else has it."""
    await connection.execute(SQL.lock_registration, registration)


async def fetch_digest(connection: Connection, registration: str, transaction_id: str) -> bytes | None:
    """Of the transaction that was taken in under this id, if one was."""
    digest: bytes | None = await connection.fetchval(SQL.fetch_digest, registration, transaction_id)
    return digest


async def write_digest(connection: Connection, registration: str, transaction_id: str, digest: bytes) -> None:
    await connection.execute(SQL.write_digest, registration, transaction_id, digest)


async def fetch_known(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those that were taken in before."""
    return {row[0] for row in await connection.fetch(SQL.fetch_known, event_ids)}


async def insert_events(connection: Connection, rows: Sequence[NewEvent]) -> None:
    if rows:
        await connection.execute(SQL.insert_events, *(list(column) for column in zip(*rows, strict=True)))


async def fetch_events(connection: Connection, event_ids: Iterable[str]) -> dict[str, KeptEvent]:
    """By their ids."""
    rows = await connection.fetch(SQL.fetch_events, list(event_ids))
    return {row[0]: KeptEvent(*row) for row in rows}


async def prune_events(connection: Connection, age: timedelta) -> int:
    """Forget those that are older and that every reader has passed, with their places in the stream; how many
    they were."""
    forgotten: int = await connection.fetchval(SQL.prune_events, age)
    return forgotten


async def prune_transactions(connection: Connection, age: timedelta) -> int:
    forgotten: int = await connection.fetchval(SQL.prune_transactions, age)
    return forgotten
