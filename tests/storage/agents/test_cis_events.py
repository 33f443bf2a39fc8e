"""What published CIS nodes have sent, and what waits for them."""

import asyncio

from storage.agents import cis_events
from storage.database import Database

DIGEST = b"x" * 32


async def test_an_event_is_taken_in_once(database: Database) -> None:
    """By its id and the peer that sent it; what was said under the id is kept for comparison."""
    async with database.transaction() as connection:
        assert await cis_events.insert_received(connection, "a", "$1", DIGEST, 5)
        assert not await cis_events.insert_received(connection, "a", "$1", b"y" * 32, 6)
        assert await cis_events.insert_received(connection, "b", "$1", DIGEST, 7)
        assert await cis_events.fetch_digest(connection, "a", "$1") == DIGEST
        assert await cis_events.fetch_digest(connection, "a", "$2") is None


async def test_of_two_at_the_same_time_one_is_new(database: Database) -> None:
    """The other waits for its end."""

    async def take() -> bool:
        async with database.transaction() as connection:
            return await cis_events.insert_received(connection, "a", "$1", DIGEST, 5)

    assert sorted(await asyncio.gather(take(), take(), take())) == [False, False, True]


async def test_ids_are_forgotten_in_time(database: Database) -> None:
    """The oldest, so many at once."""
    async with database.transaction() as connection:
        for number in range(3):
            await cis_events.insert_received(connection, "a", f"${number}", DIGEST, number)
        assert await cis_events.prune_received(connection, 2, 1) == 1
        assert await cis_events.prune_received(connection, 2, 5) == 1
        assert await cis_events.fetch_digest(connection, "a", "$2") == DIGEST


async def test_what_waits_is_given_in_its_order(database: Database) -> None:
    """Until it is done with; with the task that it belongs to."""
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


async def test_under_a_name_there_is_one_event(database: Database) -> None:
    """Also after it was sent: whoever was killed in between does not send another one."""
    async with database.transaction() as connection:
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100)
        assert await cis_events.enqueue(connection, "a", "one", b"2", 200)
        [waiting] = await cis_events.list_queued(connection, "a", 9)
        assert (waiting.body, waiting.deadline) == (b"1", 100)
        await cis_events.mark_sent(connection, waiting.id)
        assert await cis_events.enqueue(connection, "a", "one", b"3", 300)
        assert await cis_events.list_queued(connection, "a", 9) == []
        assert await cis_events.list_peers_with_queue(connection) == []


async def test_only_so_much_waits_for_one_node(database: Database) -> None:
    """What waits already is still found by its name, and other nodes have room of their own."""
    async with database.transaction() as connection:
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100, most=1)
        assert not await cis_events.enqueue(connection, "a", "two", b"2", 100, most=1)
        assert await cis_events.enqueue(connection, "a", "one", b"1", 100, most=1)
        assert await cis_events.enqueue(connection, "b", "one", b"1", 100, most=1)


async def test_what_nobody_wants_any_more_is_forgotten(database: Database) -> None:
    """Sent or not, once its time is over."""
    async with database.transaction() as connection:
        for number in range(3):
            await cis_events.enqueue(connection, "a", str(number), b"1", 100 + number)
        assert await cis_events.prune_outgoing(connection, 102, 1) == 1
        assert await cis_events.prune_outgoing(connection, 102, 9) == 1
        assert len(await cis_events.list_queued(connection, "a", 9)) == 1
