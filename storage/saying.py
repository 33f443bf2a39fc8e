"""Messages at the head of a room, written by one statement: the events, the room's head, the names under
which they are found again, what they relate to, their places in the stream and in the queues to others.

It takes no lock before: whoever made the events knew the room as it stood at a generation, and nothing is
written when it has another one by now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from storage.arrays import text_array
from storage.database import Connection
from storage.events import EventRow
from storage.room_stream import TAG, StreamRow
from storage.sent_transactions import Sent
from storage.statements import load

SQL = load("storage", "saying.sql")


class Queued(NamedTuple):
    """An event at its place in the queue to a server, and the transaction that has been written down with all
    that was queued for it, if one has: its id and its time."""

    destination: str
    event_id: str
    position: int
    transaction_id: str | None = None
    begun_at: int | None = None


class Offered(NamedTuple):
    """A transaction that takes what is said to a server, in the place of one that has been answered and may
    still be written down."""

    transaction_id: str
    answered: str | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """`events` are accepted messages in their order; they change nothing of the room's state."""

    room_id: str
    generation: int
    """At which they were made. They make it one more."""
    forward_extremities: Sequence[str]
    """After them."""
    events: Sequence[EventRow]
    sent: Mapping[Sent, str]
    relations: Sequence[tuple[str, str, str]]
    """Of the target, how an event relates to it, and that event."""
    queue: Sequence[tuple[str, str]]
    """Servers and the events that they get, in the order of the events."""
    offered: Mapping[str, Offered] = field(default_factory=dict)
    """The transactions that take them there, by server; of some servers or of none."""


@dataclass(frozen=True, slots=True)
class Said:
    """Where it is found."""

    told: Sequence[StreamRow]
    queued: Sequence[Queued]


async def say(connection: Connection, words: Words, now_ms: int) -> Said | None:
    """None: nothing was written, because somebody else has written to the room, or because
    one of the names has been used in it."""
    if len(words.events) == 1 and len(words.queue) <= 1 and not words.relations:
        return await _say_one(connection, words, now_ms)
    rows = await connection.fetch(
        SQL.say,
        words.room_id,
        words.generation,
        list(words.forward_extremities),
        words.events,
        [sender for sender, _ in words.sent],
        [transaction_id for _, transaction_id in words.sent],
        list(words.sent.values()),
        [target for target, _, _ in words.relations],
        [rel_type for _, rel_type, _ in words.relations],
        [event_id for _, _, event_id in words.relations],
        TAG,
        [event.event_id for event in words.events],
        [destination for destination, _ in words.queue],
        [event_id for _, event_id in words.queue],
        now_ms,
        list(words.offered),
        [offered.transaction_id for offered in words.offered.values()],
        [offered.answered for offered in words.offered.values() if offered.answered is not None],
    )
    if not rows:
        return None
    told = [StreamRow(row[2], words.room_id, row[1], "timeline") for row in rows if row[0] is None]
    return Said(told, [Queued(*row) for row in rows if row[0] is not None])


async def _say_one(connection: Connection, words: Words, now_ms: int) -> Said | None:
    """The same, of one message for at most one server."""
    (event,) = words.events
    ((_, transaction_id),) = words.sent or ((None, None),)
    ((destination, _),) = words.queue or ((None, None),)
    offered, answered = words.offered.get(destination or "", (None, None))
    row = await connection.fetchrow(
        SQL.say_one,
        words.room_id,
        words.generation,
        text_array(words.forward_extremities),
        transaction_id,
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
        destination,
        offered,
        now_ms,
        answered,
    )
    if row is None:
        return None
    position, place, begun_at = row
    told = [StreamRow(position, words.room_id, event.event_id, "timeline")]
    if destination is None:
        return Said(told, [])
    begun = None if begun_at is None else offered
    return Said(told, [Queued(destination, event.event_id, place, begun, begun_at)])
