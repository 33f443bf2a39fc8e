"""Messages and all that belongs to them, in one statement."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from storage import outbox, room_stream
from storage.database import Connection, Database
from storage.events import EventRow, fetch_events, write_events
from storage.relations import fetch_relations
from storage.room_stream import StreamRow
from storage.rooms import RoomRow, fetch_rooms, insert_room
from storage.saying import Offered, Said, Words, say
from storage.sent_transactions import fetch_sent
from tests.support.postgres import pool_on

ROOM, ALICE, PEER, OTHER = "!r:a.example", "@alice:a.example", "b.example", "c.example"


def event(event_id: str, depth: int = 2) -> EventRow:
    said = b"{}"
    return EventRow(
        event_id, ROOM, "m.x", None, ALICE, depth, 7, ["$0"], ["$c"], "accepted", None, 1, 1, said
    )


def words(*event_ids: str, generation: int = 5, name: str = "1") -> Words:
    return Words(
        ROOM,
        generation,
        [event_ids[-1]],
        [event(event_id, 2 + number) for number, event_id in enumerate(event_ids)],
        {(ALICE, name): event_ids[0]},
        [("$0", "m.thread", event_ids[0])],
        [(destination, event_id) for event_id in event_ids for destination in (PEER, OTHER)],
    )


def plain(event_id: str, generation: int = 5, name: str = "1") -> Words:
    """One message, for one server: it goes by a statement of its own."""
    return replace(words(event_id, generation=generation, name=name), relations=[], queue=[(PEER, event_id)])


async def room(connection: Connection) -> None:
    await insert_room(connection, RoomRow(ROOM, "11", 5, ["$0"], 1))


async def written(connection: Connection) -> tuple[object, ...]:
    """Of all tables that are concerned."""
    return (
        await fetch_rooms(connection, [ROOM]),
        len(await fetch_events(connection, ["$1", "$2", "$3"])),
        await room_stream.read(connection, 0, 10),
        await outbox.depths(connection),
    )


async def test_everything_is_written_at_once(database: Database) -> None:
    """The head moves on, and each reader and each server finds the events in their order."""
    async with database.transaction() as connection:
        await room(connection)
    async with database.statements() as connection:
        said = await say(connection, words("$2", "$1"), 9)
        assert said is not None
        first, second = (row.position for row in said.told)
        assert first < second
        assert [row.event_id for row in said.told] == ["$2", "$1"]
        assert await room_stream.read(connection, 0, 10) == [
            StreamRow(first, ROOM, "$2", "timeline"),
            StreamRow(second, ROOM, "$1", "timeline"),
        ]
        assert await fetch_rooms(connection, [ROOM]) == [RoomRow(ROOM, "11", 6, ["$1"], 1)]
        assert len(await fetch_events(connection, ["$1", "$2"])) == 2
        assert await fetch_sent(connection, ROOM, [(ALICE, "1")]) == {(ALICE, "1"): "$2"}
        assert await fetch_relations(connection, ROOM, "$0", None, 9) == ["$2"]
        for server in (PEER, OTHER):
            places = [(ROOM, one.position) for one in said.queued if one.destination == server]
            assert [one.event_id for one in await outbox.fetch_pdus(connection, server, places)] == [
                "$2",
                "$1",
            ]
            assert await outbox.oldest_pdus(connection, server, ROOM, 9) == [place for _, place in places]


@pytest.mark.parametrize("event_ids", [("$1",), ("$1", "$2")])
async def test_what_need_not_be_there_is_left_out(database: Database, event_ids: tuple[str, ...]) -> None:
    """Events without a name that concern nobody else."""
    async with database.transaction() as connection:
        await room(connection)
    async with database.statements() as connection:
        said = await say(connection, replace(words(*event_ids), sent={}, relations=[], queue=[]), 9)
        assert said is not None
        assert [row.event_id for row in said.told] == list(event_ids)
        assert said.queued == []
        assert await connection.fetchval("SELECT count(*) FROM sent_transactions") == 0


async def test_one_message_for_one_server_is_written_at_once_too(database: Database) -> None:
    """With all that the other statement writes of it."""
    async with database.transaction() as connection:
        await room(connection)
    async with database.statements() as connection:
        said = await say(connection, plain("$1"), 9)
        assert said is not None
        (told,) = said.told
        assert await room_stream.read(connection, 0, 10) == [told]
        assert told[1:] == (ROOM, "$1", "timeline")
        assert await fetch_rooms(connection, [ROOM]) == [RoomRow(ROOM, "11", 6, ["$1"], 1)]
        assert tuple(await connection.fetchrow("SELECT * FROM events") or ()) == event("$1")
        assert await fetch_sent(connection, ROOM, [(ALICE, "1")]) == {(ALICE, "1"): "$1"}
        (queued,) = said.queued
        assert queued == (PEER, "$1", queued.position, None, None)
        assert await outbox.oldest_pdus(connection, PEER, ROOM, 9) == [queued.position]
        assert await outbox.fetch_transaction(connection, PEER) is None


@pytest.mark.parametrize("make", [words, plain])
async def test_whoever_knows_the_room_as_it_was_writes_nothing(
    database: Database, make: Callable[..., Words]
) -> None:
    """Nor whoever uses a name again, or speaks in a room that there is not."""
    async with database.transaction() as connection:
        await room(connection)
    async with database.statements() as connection:
        assert await say(connection, make("$1"), 9) is not None
        before = await written(connection)
        assert await say(connection, make("$2", name="2"), 9) is None
        assert await say(connection, make("$2", generation=6), 9) is None
        assert await say(connection, replace(make("$3", name="3"), room_id="!no:a.example"), 9) is None
        assert await written(connection) == before
        assert await say(connection, make("$2", generation=6, name="2"), 9) is not None


@pytest.mark.parametrize("make", [words, plain])
async def test_an_outlier_finds_its_place(database: Database, make: Callable[..., Words]) -> None:
    """An event that was known already, but not where it stands; one that has its place stays as it is."""
    async with database.transaction() as connection:
        await room(connection)
        outlier = event("$1")._replace(state_before=None, state_after=None)
        await write_events(connection, [outlier, event("$2")._replace(state_before=7, state_after=7)])
    async with database.statements() as connection:
        assert await say(connection, make("$1"), 9) is not None
        assert await say(connection, make("$2", generation=6, name="2"), 9) is not None
        found = {one.event_id: one.state_before for one in await fetch_events(connection, ["$1", "$2"])}
        assert found == {"$1": 1, "$2": 7}


@pytest.mark.parametrize("make", [words, plain])
async def test_whoever_waited_for_the_room_looks_again(
    database: Database, make: Callable[..., Words]
) -> None:
    """It may be another one by the time that it can be written to."""
    async with database.transaction() as connection:
        await room(connection)
    async with pool_on(database.address) as pool, pool.statements() as second:
        async with database.transaction() as first:
            assert await say(first, make("$1"), 9) is not None
            waiting = asyncio.create_task(say(second, make("$2", name="2"), 9))
            async with database.statements() as looking:
                while not await looking.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
                    await asyncio.sleep(0.01)
        assert await waiting is None
        assert isinstance(await say(second, make("$2", generation=6, name="2"), 9), Said)


async def test_the_transaction_that_takes_it_to_a_server_is_written_down(database: Database) -> None:
    """With all that was queued for the server, unless one is in flight to it."""
    async with database.transaction() as connection:
        await room(connection)
        await outbox.insert_transaction(connection, OTHER, outbox.InFlight("before", 1, [7], []))
    async with database.statements() as connection:
        said = await say(
            connection, replace(words("$1", "$2"), offered={PEER: Offered("t1"), OTHER: Offered("t2")}), 9
        )
        assert said is not None
        positions = [one.position for one in said.queued if one.destination == PEER]
        assert len(positions) == 2
        assert {one[3:] for one in said.queued if one.destination == PEER} == {("t1", 9)}
        assert {one[3:] for one in said.queued if one.destination == OTHER} == {(None, None)}
        assert await outbox.fetch_transaction(connection, PEER) == ("t1", 9, positions, [])
        assert await outbox.fetch_transaction(connection, OTHER) == ("before", 1, [7], [])


async def test_one_message_is_written_down_with_the_transaction_that_takes_it(database: Database) -> None:
    """Unless one is in flight to its server."""
    async with database.transaction() as connection:
        await room(connection)
    async with database.statements() as connection:
        said = await say(connection, replace(plain("$1"), offered={PEER: Offered("t1")}), 9)
        assert said is not None
        ((*_, position, transaction_id, begun_at),) = said.queued
        assert (transaction_id, begun_at) == ("t1", 9)
        assert await outbox.fetch_transaction(connection, PEER) == ("t1", 9, [position], [])
        more = replace(plain("$2", generation=6, name="2"), offered={PEER: Offered("t2")})
        said = await say(connection, more, 10)
        assert said is not None
        assert {one[3:] for one in said.queued} == {(None, None)}
        assert await outbox.fetch_transaction(connection, PEER) == ("t1", 9, [position], [])


@pytest.mark.parametrize("make", [words, plain])
async def test_it_takes_the_place_of_one_that_was_answered(
    database: Database, make: Callable[..., Words]
) -> None:
    """And of no other, that may have been begun since."""
    async with database.transaction() as connection:
        await room(connection)
        await outbox.insert_transaction(connection, PEER, outbox.InFlight("before", 1, [7], [8]))
    async with database.statements() as connection:
        for generation, event_id, answered, expected in (
            (5, "$1", "another", "before"),
            (6, "$2", "before", "t2"),
            (7, "$3", "before", "t2"),
        ):
            offered = {PEER: Offered(f"t{event_id[1:]}", answered)}
            made = make(event_id, generation=generation, name=event_id)
            said = await say(connection, replace(made, offered=offered), 9)
            assert said is not None
            begun = await outbox.fetch_transaction(connection, PEER)
            assert begun is not None
            assert begun.transaction_id == expected
        positions = [one.position for one in said.queued if one.destination == PEER]
        assert positions
        assert begun.edus == []
        assert begun.origin_server_ts == 9
