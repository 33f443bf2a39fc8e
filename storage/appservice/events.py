"""The transactions and events that the homeserver sends to this node as its application service.

The order of the events is in `room_stream`, as it is on a node that is a homeserver: both Matrix backends use
the same table of positions and the same cursors.
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
    """`member` is the target of a member event. `mark` identifies an event that this node has sent itself,
    when it is received back."""

    event_id: str
    room_id: str
    kind: Kind
    member: str | None
    mark: str | None
    event: bytes


class Redaction(NamedTuple):
    """A redaction, its target and its room."""

    target: str
    event_id: str
    room_id: str


class NewTransaction(NamedTuple):
    """`state` has an entry for each state event among the events."""

    registration: str
    transaction_id: str
    digest: bytes
    events: Sequence[NewEvent] = ()
    state: Sequence[StateEntry] = ()
    redactions: Sequence[Redaction] = ()


class ReceiveResult(NamedTuple):
    """Whether the transaction is new, and the positions of its events in the stream, None for an event
    received before. `some_are_redacted`: one of the events is the target of a stored redaction."""

    is_new: bool
    positions: Sequence[int | None]
    some_are_redacted: bool


class StoredEvent(NamedTuple):
    """`is_redacted`: it is the target of a stored redaction. `is_superseded`: there is a newer member event
    of the same user in the room."""

    event_id: str
    event: bytes
    is_redacted: bool
    is_superseded: bool


async def lock_registration(connection: Connection, registration: str) -> None:
    """Take the lock of the registration until the transaction ends; waits for another holder."""
    await connection.execute(SQL.lock_registration, registration)


async def receive_transaction(connection: Connection, new: NewTransaction) -> ReceiveResult:
    """Store a transaction of the homeserver, without the events received before, under the registration's
    lock. Call it once in a transaction, late in it."""
    events = zip(*new.events, strict=True) if new.events else ((),) * len(NewEvent._fields)
    redactions = zip(*new.redactions, strict=True) if new.redactions else ((),) * len(Redaction._fields)
    row = await connection.fetchrow(
        SQL.receive_transaction, new.registration, new.transaction_id, new.digest, new.state, *redactions, TAG, *events
    )
    assert row is not None, "the function returns a row"
    return ReceiveResult(row[0], row[1] or (), row[2])


async def fetch_known_ids(connection: Connection, event_ids: Sequence[str]) -> set[str]:
    """The ids of the events that are stored."""
    return {row[0] for row in await connection.fetch(SQL.fetch_known_ids, event_ids)}


async def fetch_sent(connection: Connection, room_id: str, mark: str) -> str | None:
    """The oldest event of the room with this mark."""
    event_id: str | None = await connection.fetchval(SQL.fetch_sent, room_id, mark)
    return event_id


async def fetch_events(connection: Connection, event_ids: Iterable[str]) -> dict[str, StoredEvent]:
    """The stored events, by id."""
    rows = await connection.fetch(SQL.fetch_events, list(event_ids))
    return {row[0]: StoredEvent(*row) for row in rows}


async def prune_events(connection: Connection, age: timedelta) -> int:
    """Delete older events that every reader has passed, together with their stream entries, and return their
    number."""
    deleted: int = await connection.fetchval(SQL.prune_events, age)
    return deleted


async def prune_transactions(connection: Connection, age: timedelta) -> int:
    deleted: int = await connection.fetchval(SQL.prune_transactions, age)
    return deleted
