"""Messages of another server at the head of a room, written by one statement: the events, the room's head,
what they relate to, their places in the stream, and what was answered to the transaction that brought them.

It takes no lock before: whoever judged the events knew the room as it stood at a generation, and nothing is
written when it has another one by now.
"""

from storage.arrays import text_array
from storage.database import Connection
from storage.events import EventRow
from storage.incoming_transactions import Answered
from storage.room_stream import TAG, StreamRow
from storage.saying import Words
from storage.statements import load

SQL = load("storage", "hearing.sql")


async def hear(connection: Connection, words: Words, answered: Answered) -> list[StreamRow]:
    """Their places in the stream. None of them: nothing was written, because somebody else has written to the
    room, or because one of the events, a redaction of it, or the transaction has come before. Nobody is sent
    what others say."""
    assert not words.sent, "names are given to what this server says"
    assert not words.queue, "everybody sends what is his own"
    event = words.events[0]
    if (
        not words.relations
        and tuple(words.forward_extremities) == (event.event_id,)
        and len(words.events) == 1
    ):
        return await _hear_one(connection, words.generation, event, answered)
    rows = await connection.fetch(
        SQL.hear,
        words.room_id,
        words.generation,
        list(words.forward_extremities),
        words.events,
        [target for target, _, _ in words.relations],
        [rel_type for _, rel_type, _ in words.relations],
        [event_id for _, _, event_id in words.relations],
        [event.event_id for event in words.events],
        answered.origin,
        answered.transaction_id,
        answered.answer,
        TAG,
        *(answered.audit or (None,) * 9),
    )
    return [StreamRow(*row) for row in rows]


async def _hear_one(
    connection: Connection, generation: int, event: EventRow, answered: Answered
) -> list[StreamRow]:
    """The same, of one message that is the end of the room."""
    position = await connection.fetchval(
        SQL.hear_one,
        event.room_id,
        generation,
        event.event_id,
        event.type,
        event.sender,
        event.depth,
        event.origin_server_ts,
        text_array(event.prev_events),
        text_array(event.auth_events),
        event.state_before,
        event.state_after,
        event.canonical,
        answered.origin,
        answered.transaction_id,
        answered.answer,
        TAG,
        *(answered.audit or (None,) * 9),
    )
    return [] if position is None else [StreamRow(position, event.room_id, event.event_id, "timeline")]
