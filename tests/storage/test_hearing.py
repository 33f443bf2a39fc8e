"""Messages of another server and all that belongs to them, in one statement."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from storage import room_stream
from storage.audit import AuditRow, AuditSearch, search
from storage.database import Connection, Database
from storage.events import EventRow, fetch_events, write_events
from storage.hearing import hear
from storage.incoming_transactions import Answered, fetch_answer, insert_answer
from storage.redactions import insert_redactions
from storage.relations import fetch_relations
from storage.room_stream import StreamRow
from storage.rooms import RoomRow, fetch_rooms, insert_room
from storage.saying import Words

ROOM, BOB, PEER = "!r:a.example", "@bob:b.example", "b.example"
AT = datetime(2026, 1, 1, tzinfo=UTC)
ROW = AuditRow(AT, PEER, "in", "transaction", None, ROOM, "1", "done", "2 accepted")
ANSWERED = Answered(PEER, "1", b"{}", ROW)


def event(event_id: str, depth: int = 2) -> EventRow:
    said = b"{}"
    return EventRow(event_id, ROOM, "m.x", None, BOB, depth, 7, ["$0"], ["$c"], "accepted", None, 1, 1, said)


def words(*event_ids: str, generation: int = 5) -> Words:
    events = [event(event_id, 2 + number) for number, event_id in enumerate(event_ids)]
    return Words(ROOM, generation, [event_ids[-1]], events, {}, [("$0", "m.thread", event_ids[0])], [])


def plain(event_id: str, generation: int = 5) -> Words:
    """One message that relates to nothing: it goes by a statement of its own."""
    return replace(words(event_id, generation=generation), relations=[])


async def written(connection: Connection) -> tuple[object, ...]:
    """Of all tables that are concerned."""
    return (
        await fetch_rooms(connection, [ROOM]),
        len(await fetch_events(connection, ["$1", "$2", "$3"])),
        await room_stream.read(connection, 0, 10),
        await search(connection, AuditSearch(), 10),
        [await fetch_answer(connection, PEER, name) for name in "12"],
    )


async def room(database: Database) -> None:
    async with database.transaction() as connection:
        await insert_room(connection, RoomRow(ROOM, "11", 5, ["$0"], 1))


async def test_everything_is_written_at_once(database: Database) -> None:
    """The head moves on, readers find the events in their order, and the answer is kept."""
    await room(database)
    async with database.statements() as connection:
        told = await hear(connection, words("$2", "$1"), ANSWERED)
        first, second = (row.position for row in told)
        assert first < second
        assert told == [
            StreamRow(first, ROOM, "$2", "timeline"),
            StreamRow(second, ROOM, "$1", "timeline"),
        ]
        assert await written(connection) == (
            [RoomRow(ROOM, "11", 6, ["$1"], 1)],
            2,
            told,
            [ROW],
            [b"{}", None],
        )
        assert await fetch_relations(connection, ROOM, "$0", None, 10) == ["$2"]


async def test_one_message_is_written_at_once_too(database: Database) -> None:
    """With all that the other statement writes of it, as long as it is the only end of the room."""
    await room(database)
    async with database.statements() as connection:
        told = await hear(connection, plain("$1"), ANSWERED)
        (one,) = told
        assert one[1:] == (ROOM, "$1", "timeline")
        head = RoomRow(ROOM, "11", 6, ["$1"], 1)
        assert await written(connection) == ([head], 1, told, [ROW], [b"{}", None])
        assert tuple(await connection.fetchrow("SELECT * FROM events") or ()) == event("$1")
        beside = replace(plain("$2", generation=6), forward_extremities=["$1", "$2"])
        assert len(await hear(connection, beside, ANSWERED._replace(transaction_id="2"))) == 1
        assert await fetch_rooms(connection, [ROOM]) == [RoomRow(ROOM, "11", 7, ["$1", "$2"], 1)]


@pytest.mark.parametrize("make", [words, plain])
async def test_without_an_audit_nothing_is_written_into_it(
    database: Database, make: Callable[..., Words]
) -> None:
    """The rest is."""
    await room(database)
    async with database.statements() as connection:
        assert await hear(connection, make("$1"), ANSWERED._replace(audit=None))
        assert (await written(connection))[3:] == ([], [b"{}", None])


@pytest.mark.parametrize("make", [words, plain])
async def test_nothing_is_written_where_something_has_come_before(
    database: Database, make: Callable[..., Words]
) -> None:
    """Another event in the room, one of these events, a redaction of it, or the transaction."""
    await room(database)
    async with database.statements() as connection:
        await write_events(connection, [an_outlier(event("$3"))])
        await insert_redactions(connection, [("$4", "$0")])
        await insert_answer(connection, Answered(PEER, "2", b"{2}"))
        before = await written(connection)
        assert await hear(connection, make("$1", generation=4), ANSWERED) == []
        assert await hear(connection, words("$1", "$3"), ANSWERED) == []
        assert await hear(connection, words("$1", "$4"), ANSWERED) == []
        assert await hear(connection, make("$3"), ANSWERED) == []
        assert await hear(connection, make("$4"), ANSWERED) == []
        assert await hear(connection, make("$1"), ANSWERED._replace(transaction_id="2")) == []
        elsewhere = event("$1")._replace(room_id="!other:a.example")
        other = replace(make("$1"), room_id="!other:a.example", events=[elsewhere])
        assert await hear(connection, other, ANSWERED) == []
        assert await written(connection) == before
        assert await hear(connection, make("$1"), ANSWERED._replace(origin="c.example", transaction_id="2"))


def an_outlier(row: EventRow) -> EventRow:
    """As an outlier."""
    return row._replace(state_before=None, state_after=None)
