"""Appending messages with all their rows in one statement."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation.audit import AuditRow, AuditSearch, search
from storage.federation.incoming_transactions import TransactionResponse, fetch_response, insert_response
from storage.rooms import stream as room_stream
from storage.rooms.append import AppendResult, MessageBatch, append
from storage.rooms.events import EventRow, fetch_events, fetch_relations, insert_redactions, write_events
from storage.rooms.rooms import RoomRow, fetch_rooms, insert_room
from storage.rooms.sent_transactions import fetch_sent
from storage.rooms.stream import StreamRow
from tests.support.postgres import pool_on

ROOM, ALICE, PEER, OTHER = "!r:a.example", "@alice:a.example", "b.example", "c.example"
AT = datetime(2026, 1, 1, tzinfo=UTC)
AUDIT = AuditRow(AT, PEER, "in", "transaction", None, ROOM, "1", "done", "2 accepted")
RESPONSE = TransactionResponse(PEER, "1", b"{}", AUDIT)


def event(event_id: str, depth: int = 2) -> EventRow:
    return EventRow(event_id, ROOM, "m.x", None, ALICE, depth, 7, ["$0"], ["$c"], "accepted", None, 1, 1, b"{}")


def several(*event_ids: str, generation: int = 5, **more: Any) -> MessageBatch:
    """With a relation, so that the statement with arrays is used even for one message."""
    events = [event(event_id, 2 + number) for number, event_id in enumerate(event_ids)]
    related = [("$0", "m.thread", event_ids[0])]
    return replace(MessageBatch(ROOM, generation, [event_ids[-1]], events, related), **more)


def one(event_id: str, generation: int = 5, **more: Any) -> MessageBatch:
    """One message without relations, for which there is a separate statement."""
    return replace(MessageBatch(ROOM, generation, [event_id], [event(event_id)]), **more)


BOTH = pytest.mark.parametrize("make", [several, one])


async def room(database: Database) -> None:
    async with database.transaction() as connection:
        await insert_room(connection, RoomRow(ROOM, "11", 5, ["$0"], 1))


async def written(connection: Connection) -> tuple[object, ...]:
    """The rows of all tables concerned."""
    return (
        await fetch_rooms(connection, [ROOM]),
        len(await fetch_events(connection, ["$1", "$2", "$3"])),
        await room_stream.read(connection, 0, 10),
        await outbox.list_depths(connection),
        await search(connection, AuditSearch(), 10),
        [await fetch_response(connection, PEER, name) for name in "12"],
    )


async def test_local_events_are_written_with_all_their_rows(database: Database) -> None:
    """The forward extremities move on, and readers and destinations get the events in order."""
    await room(database)
    queue = [(destination, event_id) for event_id in ("$2", "$1") for destination in (PEER, OTHER)]
    async with database.autocommit() as connection:
        appended = await append(connection, several("$2", "$1", sent={(ALICE, "1"): "$2"}, queue=queue), 9)
        assert appended is not None
        first, second = (row.position for row in appended.streamed)
        assert first < second
        assert await room_stream.read(connection, 0, 10) == [
            StreamRow(first, ROOM, "$2", "timeline"),
            StreamRow(second, ROOM, "$1", "timeline"),
        ]
        assert appended.streamed == await room_stream.read(connection, 0, 10)
        assert await fetch_rooms(connection, [ROOM]) == [RoomRow(ROOM, "11", 6, ["$1"], 1)]
        assert len(await fetch_events(connection, ["$1", "$2"])) == 2
        assert await fetch_sent(connection, ROOM, [(ALICE, "1")]) == {(ALICE, "1"): "$2"}
        assert await fetch_relations(connection, ROOM, "$0", None, 9) == ["$2"]
        for server in (PEER, OTHER):
            places = [(ROOM, row.position) for row in appended.queued if row.destination == server]
            queued = await outbox.fetch_pdus(connection, server, places)
            assert [row.event_id for row in queued] == ["$2", "$1"]
            assert await outbox.list_oldest_pdus(connection, server, ROOM, 9) == [place for _, place in places]


async def test_one_message_for_one_server_is_written_with_all_its_rows(database: Database) -> None:
    """As by the other statement."""
    await room(database)
    async with database.autocommit() as connection:
        message = one("$1", sent={(ALICE, "1"): "$1"}, queue=[(PEER, "$1")])
        appended = await append(connection, message, 9)
        assert appended is not None
        assert await room_stream.read(connection, 0, 10) == appended.streamed
        assert [row[1:] for row in appended.streamed] == [(ROOM, "$1", "timeline")]
        assert await fetch_rooms(connection, [ROOM]) == [RoomRow(ROOM, "11", 6, ["$1"], 1)]
        assert tuple(await connection.fetchrow("SELECT * FROM events") or ()) == event("$1")
        assert await fetch_sent(connection, ROOM, [(ALICE, "1")]) == {(ALICE, "1"): "$1"}
        (queued,) = appended.queued
        assert queued == (PEER, "$1", queued.position)
        assert await outbox.list_oldest_pdus(connection, PEER, ROOM, 9) == [queued.position]


@BOTH
async def test_received_events_are_written_with_the_response(
    database: Database, make: Callable[..., MessageBatch]
) -> None:
    """And with the audit entry, if there is one. Nothing is queued."""
    await room(database)
    async with database.autocommit() as connection:
        appended = await append(connection, make("$1", response=RESPONSE), 9)
        assert appended is not None
        head = RoomRow(ROOM, "11", 6, ["$1"], 1)
        streamed = appended.streamed
        assert await written(connection) == ([head], 1, streamed, [], [AUDIT], [b"{}", None])
        beside = make("$2", generation=6, forward_extremities=["$1", "$2"])
        response = RESPONSE._replace(transaction_id="2", audit=None)
        assert await append(connection, replace(beside, response=response), 9) is not None
        assert await fetch_rooms(connection, [ROOM]) == [RoomRow(ROOM, "11", 7, ["$1", "$2"], 1)]
        assert (await written(connection))[4:] == ([AUDIT], [b"{}", b"{}"])


@pytest.mark.parametrize("event_ids", [("$1",), ("$1", "$2")])
async def test_optional_parts_are_left_out(database: Database, event_ids: tuple[str, ...]) -> None:
    """Events without transaction id and without destination."""
    await room(database)
    async with database.autocommit() as connection:
        appended = await append(connection, several(*event_ids, relations=[]), 9)
        assert appended is not None
        assert [row.event_id for row in appended.streamed] == list(event_ids)
        assert list(appended.queued) == []
        for table in ("sent_transactions", "incoming_transactions", "audit", "outbox_pdus"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0


@BOTH
async def test_nothing_is_written_after_a_conflict(database: Database, make: Callable[..., MessageBatch]) -> None:
    """Another generation of the room, a stored event or redaction, a used transaction id, a stored response,
    or an unknown room."""
    await room(database)
    async with database.autocommit() as connection:
        outlier = event("$3")._replace(state_before=None, state_after=None)
        await write_events(connection, [outlier])
        await insert_redactions(connection, [("$4", "$0")])
        await insert_response(connection, TransactionResponse(PEER, "2", b"{2}"))
        assert await append(connection, make("$1", sent={(ALICE, "1"): "$1"}), 9) is not None
        before = await written(connection)
        for other in (
            make("$2"),
            make("$2", generation=7),
            make("$1", generation=6),
            make("$3", generation=6),
            make("$4", generation=6),
            several("$2", "$3", generation=6),
            several("$2", "$4", generation=6),
            make("$2", generation=6, sent={(ALICE, "1"): "$2"}),
            make("$2", generation=6, response=RESPONSE._replace(transaction_id="2")),
            make("$2", generation=6, room_id="!no:a.example"),
        ):
            assert await append(connection, other, 9) is None
        assert await written(connection) == before
        response = RESPONSE._replace(origin=OTHER, transaction_id="2")
        good = make("$2", generation=6, sent={(ALICE, "2"): "$2"}, response=response)
        assert await append(connection, good, 9) is not None


@BOTH
async def test_a_writer_that_has_waited_for_the_lock_writes_nothing(
    database: Database, make: Callable[..., MessageBatch]
) -> None:
    """The room has another generation by then."""
    await room(database)
    async with pool_on(database.address) as pool, pool.autocommit() as second:
        async with database.transaction() as first:
            assert await append(first, make("$1"), 9) is not None
            waiting = asyncio.create_task(append(second, make("$2"), 9))
            async with database.autocommit() as looking:
                while not await looking.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
                    await asyncio.sleep(0.01)
        assert await waiting is None
        assert isinstance(await append(second, make("$2", generation=6), 9), AppendResult)
