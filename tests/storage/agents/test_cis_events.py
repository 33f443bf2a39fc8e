"""Events received from and queued for published CIS nodes."""

import asyncio

from storage.agents import cis_events
from storage.database import Database

DIGEST = b"x" * 32


async def test_an_event_is_received_once(database: Database) -> None:
    """Events are identified by id and peer; the digest under the id is stored for comparison."""
    async with database.transaction() as connection:
        assert await cis_events.insert_received(connection, "a", "$1", DIGEST, 5)
        assert not await cis_events.insert_received(connection, "a", "$1", b"y" * 32, 6)
        assert await cis_events.insert_received(connection, "b", "$1", DIGEST, 7)
        assert await cis_events.fetch_digest(connection, "a", "$1") == DIGEST
        assert await cis_events.fetch_digest(connection, "a", "$2") is None


async def test_of_two_concurrent_inserts_one_is_new(database: Database) -> None:
    """The other waits for its transaction."""

    async def insert() -> bool:
        async with database.transaction() as connection:
            return await cis_events.insert_received(connection, "a", "$1", DIGEST, 5)

    assert sorted(await asyncio.gather(insert(), insert(), insert())) == [False, False, True]


async def test_received_ids_are_pruned(database: Database) -> None:
    """The oldest, at most `limit` at once."""
    async with database.transaction() as connection:
        for number in range(3):
            await cis_events.insert_received(connection, "a", f"${number}", DIGEST, number)
        assert await cis_events.prune_received(connection, 2, 1) == 1
        assert await cis_events.prune_received(connection, 2, 5) == 1
        assert await cis_events.fetch_digest(connection, "a", "$2") == DIGEST


async def test_queued_events_are_listed_in_order(database: Database) -> None:
    """Until they are marked as sent; with the task to which they belong."""
    async with database.transaction() as connection:
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100, ("living", "req"))
        assert await cis_events.enqueue(connection, "a", "two", b"2", 200)
        assert await cis_events.enqueue(connection, "b", "one", b"3", 300)
        first, second = await cis_events.list_queued(connection, "a", 9)
        assert first[1:] == (b"1", "living", "req", 100)
        assert second[1:] == (b"2", None, None, 200)
        assert sorted(await cis_events.list_peers_with_queue(connection)) == ["a", "b"]
        await cis_events.mark_sent(connection, first.id)
        assert await cis_events.list_queued(connection, "a", 9) == [second]


async def test_a_name_is_queued_once(database: Database) -> None:
    """Also after it was sent: a process that was killed in between does not send a second event."""
    async with database.transaction() as connection:
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100)
        assert await cis_events.enqueue(connection, "a", "one", b"2", 200)
        [waiting] = await cis_events.list_queued(connection, "a", 9)
        assert (waiting.body, waiting.deadline) == (b"1", 100)
        await cis_events.mark_sent(connection, waiting.id)
        assert await cis_events.enqueue(connection, "a", "one", b"3", 300)
        assert await cis_events.list_queued(connection, "a", 9) == []
        assert await cis_events.list_peers_with_queue(connection) == []


async def test_the_queue_of_a_node_is_bounded(database: Database) -> None:
    """An event that is already queued is still found by its name, and other nodes have their own limit."""
    async with database.transaction() as connection:
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100, most=1)
        assert not await cis_events.enqueue(connection, "a", "two", b"2", 100, most=1)
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100, most=1)
        assert await cis_events.enqueue(connection, "b", "one", b"1", 100, most=1)


async def test_outgoing_events_are_pruned_after_their_deadline(database: Database) -> None:
    """Sent or not."""
    async with database.transaction() as connection:
        for number in range(3):
            await cis_events.enqueue(connection, "a", str(number), b"1", 100 + number)
        assert await cis_events.prune_outgoing(connection, 102, 1) == 1
        assert await cis_events.prune_outgoing(connection, 102, 9) == 1
        assert len(await cis_events.list_queued(connection, "a", 9)) == 1
