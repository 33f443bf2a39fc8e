"""Messages of another server at the head of a room, written by one statement: the events, the room's head,
what they relate to, their places in the stream, and what was answered to the transaction that brought them.

It takes no lock before: whoever judged the events knew the room as it stood at a generation, and nothing is
written when it has another one by now.
"""

from storage.database import Connection
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
