"""The queues to other servers, on a real Postgres."""

import asyncio

from storage import outbox
from storage.database import Connection, Database, connect_once
from storage.events import EventRow, write_events
from storage.outbox import Depth, InFlight, QueuedEdu, RoomBacklog, StoredEdu, StoredPdu

PEER, OTHER = "b.example", "c.example"
ROOM, SECOND = "!room:a.example", "!second:a.example"


def event(event_id: str, room_id: str = ROOM) -> EventRow:
    return EventRow(
        event_id,
        room_id,
        "m.room.message",
        None,
        "@a:a.example",
        1,
        1,
        [],
        [],
        "accepted",
        None,
        None,
        None,
        f'{{"id":"{event_id}"}}'.encode(),
    )


async def queue(connection: Connection, *entries: tuple[str, str, str], now: int = 5) -> list[int]:
    rooms = {event_id: room for _, room, event_id in entries}
    await write_events(connection, [event(event_id, room) for event_id, room in rooms.items()])
    return [row.position for row in await outbox.queue_pdus(connection, entries, now)]


async def test_events_wait_in_the_order_in_which_they_were_queued(database: Database) -> None:
    """Room by room and destination by destination; a load gives the oldest."""
    async with database.transaction() as connection:
        first = await queue(connection, (PEER, ROOM, "$1"), (OTHER, ROOM, "$1"), (PEER, ROOM, "$2"))
        second = await queue(connection, (PEER, SECOND, "$3"), (PEER, ROOM, "$4"))
        assert sorted([*first, *second]) == [*first, *second]
        assert await outbox.oldest_pdus(connection, PEER, ROOM, 2) == [first[0], first[2]]
        assert await outbox.oldest_pdus(connection, PEER, ROOM, 9) == [first[0], first[2], second[1]]
        assert sorted(await outbox.survey(connection, PEER)) == [
            RoomBacklog(ROOM, 3, second[1]),
            RoomBacklog(SECOND, 1, second[0]),
        ]
        assert await outbox.queue_pdus(connection, [], 5) == []


async def test_events_are_fetched_as_peers_get_them(database: Database) -> None:
    """In the order of the queue, whatever order they are asked for in; what is gone is left out."""
    async with database.transaction() as connection:
        one, two = await queue(connection, (PEER, ROOM, "$1"), (PEER, SECOND, "$2"))
        places = [(SECOND, two), (ROOM, one), (ROOM, two), (ROOM, one + 100)]
        expected = [StoredPdu(one, "$1", b'{"id":"$1"}'), StoredPdu(two, "$2", b'{"id":"$2"}')]
        assert await outbox.fetch_pdus(connection, PEER, places) == expected
        assert await outbox.fetch_pdus(connection, OTHER, places) == []
        assert await outbox.fetch_rooms_of_positions(connection, PEER, [one, two, 99]) == [
            (one, ROOM),
            (two, SECOND),
        ]


async def test_what_was_sent_is_taken_out(database: Database) -> None:
    """Exactly that, of that destination; skipping takes all before a position, in one room."""
    async with database.transaction() as connection:
        one, two, three, _ = await queue(
            connection, (PEER, ROOM, "$1"), (PEER, ROOM, "$2"), (PEER, ROOM, "$3"), (OTHER, ROOM, "$1")
        )
        await outbox.delete_pdus(connection, PEER, [(ROOM, two), (SECOND, one)])
        await outbox.delete_pdus(connection, PEER, [])
        assert await outbox.oldest_pdus(connection, PEER, ROOM, 9) == [one, three]
        assert await outbox.skip_pdus(connection, PEER, ROOM, three) == 1
        assert await outbox.oldest_pdus(connection, PEER, ROOM, 9) == [three]
        assert len(await outbox.oldest_pdus(connection, OTHER, ROOM, 9)) == 1


async def test_edus_wait_beside_the_events(database: Database) -> None:
    """Each destination has its own."""
    async with database.transaction() as connection:
        queued = await outbox.queue_edu(connection, [PEER, OTHER], "m.direct_to_device", b'{"a":1}', 5)
        assert [type(row) for row in queued] == [QueuedEdu, QueuedEdu]
        (mine,) = [row.position for row in queued if row.destination == PEER]
        assert await outbox.oldest_edus(connection, PEER, 9) == [mine]
        expected = [StoredEdu(mine, "m.direct_to_device", b'{"a":1}')]
        assert await outbox.fetch_edus(connection, PEER, [mine, mine + 1]) == expected
        await outbox.delete_edus(connection, PEER, [mine])
        await outbox.delete_edus(connection, PEER, [])
        assert await outbox.oldest_edus(connection, PEER, 9) == []
        assert len(await outbox.oldest_edus(connection, OTHER, 9)) == 1


async def test_whether_a_queueing_transaction_has_ended_can_be_asked(database: Database) -> None:
    """Until then nobody else sees the rows, so nobody may be told of them."""
    async with database.transaction() as reader:
        writer = connected = await connect_once(database.address)
        try:
            begun = connected.transaction()
            await begun.start()
            (row,) = await outbox.queue_pdus(writer, [(PEER, ROOM, "$1")], 5)
            assert await outbox.transaction_states(reader, [row.written_by]) == {
                row.written_by: "in progress"
            }
            await begun.commit()
            assert await outbox.transaction_states(reader, [row.written_by]) == {row.written_by: "committed"}
            begun = connected.transaction()
            await begun.start()
            (other,) = await outbox.queue_edu(writer, [PEER], "m.direct_to_device", b"{}", 5)
            await begun.rollback()
            assert await outbox.transaction_states(reader, [other.written_by]) == {
                other.written_by: "aborted"
            }
        finally:
            await connected.close()


async def test_a_transaction_in_flight_is_remembered_as_it_was(database: Database) -> None:
    """One for each destination; the next takes its place."""
    async with database.transaction() as connection:
        assert await outbox.fetch_transaction(connection, PEER) is None
        await outbox.insert_transaction(connection, PEER, InFlight("t1", 7, [1, 2], [3]))
        assert await outbox.fetch_transaction(connection, PEER) == InFlight("t1", 7, [1, 2], [3])
        await outbox.insert_transaction(connection, PEER, InFlight("t2", 8, [], []))
        assert await outbox.fetch_transaction(connection, PEER) == InFlight("t2", 8, [], [])
        await outbox.delete_transaction(connection, PEER)
        assert await outbox.fetch_transaction(connection, PEER) is None


async def test_every_server_for_which_something_waits_is_found(database: Database) -> None:
    """By its events, its EDUs or its transaction; with how much, and since when."""
    async with database.transaction() as connection:
        assert await outbox.destinations(connection) == []
        await queue(connection, (PEER, ROOM, "$1"), (PEER, SECOND, "$2"), now=20)
        await outbox.queue_edu(connection, [PEER, OTHER], "m.direct_to_device", b"{}", 10)
        await queue(connection, ("d.example", ROOM, "$3"), now=30)
        await outbox.insert_transaction(connection, "e.example", InFlight("t", 7, [], []))
        assert sorted(await outbox.destinations(connection)) == [PEER, OTHER, "d.example", "e.example"]
        assert await outbox.depths(connection) == [
            Depth(PEER, 2, 1, 10),
            Depth(OTHER, 0, 1, 10),
            Depth("d.example", 1, 0, 30),
        ]


async def test_one_session_at_a_time_sends_to_a_server(database: Database) -> None:
    """Until it gives the lock back, or ends."""
    one, two = await connect_once(database.address), await connect_once(database.address)
    try:
        assert await outbox.try_lock_destination(one, PEER)
        assert not await outbox.try_lock_destination(two, PEER)
        assert await outbox.try_lock_destination(two, OTHER)
        await outbox.unlock_destination(one, PEER)
        assert await outbox.try_lock_destination(two, PEER)
        assert not await outbox.try_lock_destination(one, PEER)
    finally:
        await asyncio.gather(one.close(), two.close())


async def test_processes_that_send_are_told(database: Database) -> None:
    """By a notification, which comes once its transaction has ended."""
    listener = await connect_once(database.address)
    heard: asyncio.Queue[object] = asyncio.Queue()
    await listener.add_listener(outbox.CHANNEL, lambda *notification: heard.put_nowait(notification[-1]))
    try:
        async with database.transaction() as connection:
            await outbox.notify(connection, "b.example")
        assert await heard.get() == "b.example"
    finally:
        await listener.close()


async def test_one_transaction_takes_the_place_of_another(database: Database) -> None:
    """What was in the first one is gone; of other servers nothing is touched."""
    async with database.transaction() as connection:
        entries = [(server, "!r", event_id) for event_id in ("$1", "$2") for server in (PEER, OTHER)]
        rows = await outbox.queue_pdus(connection, entries, 7)
        first, second = (row.position for row in rows if row.destination == PEER)
        theirs = [row.position for row in rows if row.destination == OTHER]
        await outbox.insert_transaction(connection, PEER, InFlight("t1", 7, [first], []))
        await outbox.insert_transaction(connection, OTHER, InFlight("t2", 7, theirs, []))
        await outbox.replace_sent(connection, PEER, [("!r", first)], InFlight("t3", 8, [second], [4]))
        assert await outbox.fetch_transaction(connection, PEER) == InFlight("t3", 8, [second], [4])
        assert await outbox.oldest_pdus(connection, PEER, "!r", 9) == [second]
        assert await outbox.fetch_transaction(connection, OTHER) == InFlight("t2", 7, theirs, [])
        assert await outbox.oldest_pdus(connection, OTHER, "!r", 9) == theirs


async def test_what_was_answered_goes_but_no_transaction_that_was_begun_since(database: Database) -> None:
    """Events of several, and the last of them by its id; of other servers nothing is touched."""
    async with database.transaction() as connection:
        entries = [(server, "!r", event_id) for event_id in ("$1", "$2", "$3") for server in (PEER, OTHER)]
        rows = await outbox.queue_pdus(connection, entries, 7)
        first, second, third = (row.position for row in rows if row.destination == PEER)
        await outbox.insert_transaction(connection, PEER, InFlight("t3", 7, [third], []))
        await outbox.insert_transaction(connection, OTHER, InFlight("t2", 7, [], []))
        await outbox.delete_answered(connection, PEER, [("!r", first), ("!r", second)], "t2")
        assert await outbox.oldest_pdus(connection, PEER, "!r", 9) == [third]
        assert await outbox.fetch_transaction(connection, PEER) == InFlight("t3", 7, [third], [])
        await outbox.delete_answered(connection, PEER, [("!r", third)], "t3")
        assert await outbox.fetch_transaction(connection, PEER) is None
        assert await outbox.fetch_transaction(connection, OTHER) == InFlight("t2", 7, [], [])
        assert len(await outbox.oldest_pdus(connection, OTHER, "!r", 9)) == 3
