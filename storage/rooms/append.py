"""Appends messages to a room in one statement: the events, the room's forward extremities, relations,
positions in the stream, the transaction ids of local senders and the queue rows for other servers, or the
response to the transaction in which they were received.

No lock is taken beforehand: the events were built or authorised for a generation of the room, and nothing is
written if the room has another generation.
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
    """Accepted message events, in order. They do not change the state of the room."""

    room_id: str
    generation: int
    """The generation for which they were built; appending them increments it."""
    forward_extremities: Sequence[str]
    """The forward extremities after them."""
    events: Sequence[EventRow]
    relations: Sequence[tuple[str, str, str]] = ()
    """(target, rel_type, event id) of each relation."""
    sent: Mapping[TransactionKey, str] = field(default_factory=dict)
    """Local events by the transaction ids under which they were sent."""
    queue: Sequence[tuple[str, str]] = ()
    """(destination, event id), in the order of the events."""
    response: TransactionResponse | None = None
    """The response to the transaction in which they were received."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """The positions of the events in the stream and in the queues."""

    streamed: Sequence[StreamRow]
    queued: Sequence[QueuedPdu] = ()


async def append(connection: Connection, messages: MessageBatch, now_ms: int) -> AppendResult | None:
    """Append the messages. None if nothing was written: the room has another generation, or one of the
    events, a redaction of one, a transaction id or the received transaction is already stored."""
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
    """Like `append`, for one message to at most one server."""
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
    position, queue_position = row
    streamed = [StreamRow(position, messages.room_id, event.event_id, "timeline")]
    if destination is None:
        return AppendResult(streamed)
    return AppendResult(streamed, [QueuedPdu(destination, event.event_id, queue_position)])


def _columns(response: TransactionResponse | None) -> Sequence[object]:
    """The parameters for the response and for its audit entry."""
    if response is None:
        return (None,) * 12
    *transaction, audit = response
    return (*transaction, *(audit or (None,) * 9))
