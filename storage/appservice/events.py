"""What a homeserver sends to this node as its application service.

Its events have their order in `room_stream`, as those of a node that is a homeserver itself: one table of
positions and one of cursors, whichever side a node has.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from storage.appservice.rooms import StateEntry
from storage.database import Connection
from storage.rooms.stream import TAG, Kind
from storage.statements import load

SQL = load("storage.appservice", "events.sql")


class NewEvent(NamedTuple):
    """`member` is of whom a member event speaks, `mark` that by which one of ours is known when it comes
    back."""

    event_id: str
    room_id: str
    kind: Kind
    member: str | None
    mark: str | None
    event: bytes


class Redaction(NamedTuple):
    """What asks for which event of which room."""

    target: str
    event_id: str
    room_id: str


class NewTransaction(NamedTuple):
    """`state` is what those of the events say that are state; each event stands there once."""

    registration: str
    transaction_id: str
    digest: bytes
    events: Sequence[NewEvent] = ()
    state: Sequence[StateEntry] = ()
    redactions: Sequence[Redaction] = ()


class ReceiveResult(NamedTuple):
    """Whether the transaction was a new one, and where its events are in the stream: None for one that came
    before. `some_are_redacted`: a redaction that has come asks for one of them."""

    is_new: bool
    positions: Sequence[int | None]
    some_are_redacted: bool


class StoredEvent(NamedTuple):
    """`is_redacted`: a redaction asks for it. `is_superseded`: of the member whom it speaks of something
    newer is said in the room."""

    event_id: str
    event: bytes
    is_redacted: bool
    is_superseded: bool


async def lock_registration(connection: Connection, registration: str) -> None:
    """Until the transaction ends, waiting for whoever else has it."""
    await connection.execute(SQL.lock_registration, registration)


async def receive_transaction(connection: Connection, new: NewTransaction) -> ReceiveResult:
    """All of it, but for what came before; nobody else takes one in at the same time. Once in a transaction,
    late in it."""
    events = zip(*new.events, strict=True) if new.events else ((),) * len(NewEvent._fields)
    redactions = zip(*new.redactions, strict=True) if new.redactions else ((),) * len(Redaction._fields)
    row = await connection.fetchrow(
        SQL.receive_transaction,
        new.registration,
        new.transaction_id,
        new.digest,
        new.state,
        *redactions,
        TAG,
        *events,
    )
    assert row is not None, "the function gives one"
    return ReceiveResult(row[0], row[1] or (), row[2])


async def fetch_known_ids(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    """Those that were taken in before."""
    return {row[0] for row in await connection.fetch(SQL.fetch_known_ids, event_ids)}


async def fetch_sent(connection: Connection, room_id: str, mark: str) -> str | None:
    """The event of a room that is known by this mark; the oldest one."""
    event_id: str | None = await connection.fetchval(SQL.fetch_sent, room_id, mark)
    return event_id


async def fetch_events(connection: Connection, event_ids: Iterable[str]) -> dict[str, StoredEvent]:
    """By their ids."""
    rows = await connection.fetch(SQL.fetch_events, list(event_ids))
    return {row[0]: StoredEvent(*row) for row in rows}


async def prune_events(connection: Connection, age: timedelta) -> int:
    """Forget those that are older and that every reader has passed, with their places in the stream; how many
    they were."""
    forgotten: int = await connection.fetchval(SQL.prune_events, age)
    return forgotten


async def prune_transactions(connection: Connection, age: timedelta) -> int:
    forgotten: int = await connection.fetchval(SQL.prune_transactions, age)
    return forgotten
