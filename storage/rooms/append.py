"""Messages at the head of a room, written by one statement: the events, the room's head, what they relate to,
their positions in the stream, the transaction ids that they were sent with and their positions in the queues
to other servers, or the answer to the transaction that brought them.

No lock is taken before: the events were made or judged for the room at a generation, and nothing is written
when it has another one by now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storage.database import Connection
from storage.federation.incoming_transactions import TransactionResponse
from storage.federation.outbox import QueuedPdu
from storage.rooms.events import EventRow
from storage.rooms.sent_transactions import TransactionKey
from storage.rooms.stream import TAG, StreamRow
from storage.statements import load, text_array

SQL = load("storage.rooms", "append.sql")


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """`events` are accepted messages in their order; they change nothing of the room's state."""

    room_id: str
    generation: int
    """At which they were made. They make it one more."""
    forward_extremities: Sequence[str]
    """After them."""
    events: Sequence[EventRow]
    relations: Sequence[tuple[str, str, str]] = ()
    """Of the target, how an event relates to it, and that event."""
    sent: Mapping[TransactionKey, str] = field(default_factory=dict)
    """Events of ours by the transaction ids that they were sent with."""
    queue: Sequence[tuple[str, str]] = ()
    """Servers and the events that they get, in the order of the events."""
    response: TransactionResponse | None = None
    """The transaction that brought them."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Their positions."""

    streamed: Sequence[StreamRow]
    queued: Sequence[QueuedPdu] = ()


async def append(connection: Connection, messages: MessageBatch, now_ms: int) -> AppendResult | None:
    """None: nothing was written, because the room has another generation, or because one of the events, a
    redaction of one, one of the transaction ids or the transaction that brought them has come before."""
    if len(messages.events) == 1 and len(messages.queue) <= 1 and not messages.relations:
        return await _append_one(connection, messages, now_ms)
    event_ids = [event.event_id for event in messages.events]
    rows = await connection.fetch(
        SQL.append,
        messages.room_id,
        messages.generation,
        list(messages.forward_extremities),
        messages.events,
        event_ids,
        [sender for sender, _ in messages.sent],
        [transaction_id for _, transaction_id in messages.sent],
        list(messages.sent.values()),
        [target for target, _, _ in messages.relations],
        [rel_type for _, rel_type, _ in messages.relations],
        [event_id for _, _, event_id in messages.relations],
        TAG,
        [destination for destination, _ in messages.queue],
        [event_id for _, event_id in messages.queue],
        now_ms,
        *_columns(messages.response),
    )
    if not rows:
        return None
    return AppendResult(
        [StreamRow(row[2], messages.room_id, row[1], "timeline") for row in rows if row[0] is None],
        [QueuedPdu(*row) for row in rows if row[0] is not None],
    )


async def _append_one(connection: Connection, messages: MessageBatch, now_ms: int) -> AppendResult | None:
    """The same, of one message for at most one server."""
    (event,) = messages.events
    ((_, transaction_id),) = messages.sent or ((None, None),)
    ((destination, _),) = messages.queue or ((None, None),)
    row = await connection.fetchrow(
        SQL.append_one,
        messages.room_id,
        messages.generation,
        text_array(messages.forward_extremities),
        event.event_id,
        event.sender,
        event.type,
        event.depth,
        event.origin_server_ts,
        text_array(event.prev_events),
        text_array(event.auth_events),
        event.state_before,
        event.state_after,
        event.canonical,
        TAG,
        transaction_id,
        destination,
        now_ms,
        *_columns(messages.response),
    )
    if row is None:
        return None
    position, place = row
    streamed = [StreamRow(position, messages.room_id, event.event_id, "timeline")]
    if destination is None:
        return AppendResult(streamed)
    return AppendResult(streamed, [QueuedPdu(destination, event.event_id, place)])


def _columns(response: TransactionResponse | None) -> Sequence[object]:
    """Of the transaction that brought the events, and of its row in the audit."""
    if response is None:
        return (None,) * 12
    *transaction, audit = response
    return (*transaction, *(audit or (None,) * 9))
