"""The queues to other servers."""

from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation.outbox import QueuedEdu, QueueDepth, RoomBacklog, StoredEdu, StoredPdu
from storage.rooms.events import EventRow, write_events

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


async def test_events_are_queued_in_order(database: Database) -> None:
    """For each room and destination; the oldest are loaded first."""
    async with database.transaction() as connection:
        first = await queue(connection, (PEER, ROOM, "$1"), (OTHER, ROOM, "$1"), (PEER, ROOM, "$2"))
        second = await queue(connection, (PEER, SECOND, "$3"), (PEER, ROOM, "$4"))
        assert sorted([*first, *second]) == [*first, *second]
        assert await outbox.list_oldest_pdus(connection, PEER, ROOM, 2) == [first[0], first[2]]
        assert await outbox.list_oldest_pdus(connection, PEER, ROOM, 9) == [first[0], first[2], second[1]]
        assert sorted(await outbox.fetch_backlogs(connection, PEER)) == [
            RoomBacklog(ROOM, 3, second[1]),
            RoomBacklog(SECOND, 1, second[0]),
        ]
        assert await outbox.queue_pdus(connection, [], 5) == []


async def test_events_are_fetched_in_canonical_form(database: Database) -> None:
    """In the order of the queue, whatever the order of the positions; deleted entries are left out."""
    async with database.transaction() as connection:
        one, two = await queue(connection, (PEER, ROOM, "$1"), (PEER, SECOND, "$2"))
        places = [(SECOND, two), (ROOM, one), (ROOM, two), (ROOM, one + 100)]
        expected = [StoredPdu(one, "$1", b'{"id":"$1"}'), StoredPdu(two, "$2", b'{"id":"$2"}')]
        assert await outbox.fetch_pdus(connection, PEER, places) == expected
        assert await outbox.fetch_pdus(connection, OTHER, places) == []


async def test_sent_entries_are_deleted(database: Database) -> None:
    """Only those, of that destination. Skipping deletes all before a position in one room."""
    async with database.transaction() as connection:
        one, two, three, _ = await queue(
            connection, (PEER, ROOM, "$1"), (PEER, ROOM, "$2"), (PEER, ROOM, "$3"), (OTHER, ROOM, "$1")
        )
        await outbox.delete_pdus(connection, PEER, [(ROOM, two), (SECOND, one)])
        await outbox.delete_pdus(connection, PEER, [])
        assert await outbox.list_oldest_pdus(connection, PEER, ROOM, 9) == [one, three]
        assert await outbox.skip_pdus(connection, PEER, ROOM, three) == 1
        assert await outbox.list_oldest_pdus(connection, PEER, ROOM, 9) == [three]
        assert len(await outbox.list_oldest_pdus(connection, OTHER, ROOM, 9)) == 1


async def test_edus_have_their_own_queue(database: Database) -> None:
    """For each destination."""
    async with database.transaction() as connection:
        queued = await outbox.queue_edu(connection, [PEER, OTHER], "m.direct_to_device", b'{"a":1}', 5)
        assert [type(row) for row in queued] == [QueuedEdu, QueuedEdu]
        (mine,) = [row.position for row in queued if row.destination == PEER]
        assert await outbox.list_oldest_edus(connection, PEER, 9) == [mine]
        expected = [StoredEdu(mine, "m.direct_to_device", b'{"a":1}')]
        assert await outbox.fetch_edus(connection, PEER, [mine, mine + 1]) == expected
        await outbox.delete_edus(connection, PEER, [mine])
        await outbox.delete_edus(connection, PEER, [])
        assert await outbox.list_oldest_edus(connection, PEER, 9) == []
        assert len(await outbox.list_oldest_edus(connection, OTHER, 9)) == 1


async def test_all_servers_with_queued_entries_are_found(database: Database) -> None:
    """With PDUs or EDUs, their number and the time of the oldest."""
    async with database.transaction() as connection:
        assert await outbox.list_destinations(connection) == []
        await queue(connection, (PEER, ROOM, "$1"), (PEER, SECOND, "$2"), now=20)
        await outbox.queue_edu(connection, [PEER, OTHER], "m.direct_to_device", b"{}", 10)
        await queue(connection, ("d.example", ROOM, "$3"), now=30)
        assert sorted(await outbox.list_destinations(connection)) == [PEER, OTHER, "d.example"]
        assert await outbox.list_depths(connection) == [
            QueueDepth(PEER, 2, 1, 10),
            QueueDepth(OTHER, 0, 1, 10),
            QueueDepth("d.example", 1, 0, 30),
        ]


async def test_a_database_has_one_epoch(database: Database) -> None:
    """It is generated at its first use and never changes."""
    async with database.transaction() as connection:
        drawn = await outbox.fetch_epoch(connection)
    async with database.transaction() as connection:
        assert drawn
        assert await outbox.fetch_epoch(connection) == drawn
