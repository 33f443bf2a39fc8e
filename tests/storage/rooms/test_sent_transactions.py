"""Sent events by transaction id."""

from datetime import timedelta

from storage.database import Database
from storage.rooms.sent_transactions import fetch_sent, insert_sent, prune_sent

ALICE, BOB = "@alice:a.example", "@bob:a.example"


async def test_an_event_is_found_by_its_sender_room_and_transaction_id(database: Database) -> None:
    """The same transaction id of another sender or in another room is different."""
    async with database.transaction() as connection:
        made = {(ALICE, "1"): "$1", (ALICE, "2"): "$2", (BOB, "1"): "$3"}
        assert await insert_sent(connection, "!r", made)
        assert await insert_sent(connection, "!r", {})
        assert not await insert_sent(connection, "!r", {(ALICE, "1"): "$9", (BOB, "3"): "$8"})
        keys = [(ALICE, "1"), (BOB, "1"), (BOB, "2")]
        assert await fetch_sent(connection, "!r", keys) == {(ALICE, "1"): "$1", (BOB, "1"): "$3"}
        assert await fetch_sent(connection, "!other", keys) == {}
        assert await fetch_sent(connection, "!r", []) == {}


async def test_old_transaction_ids_are_pruned(database: Database) -> None:
    """A client repeats a send only for a limited time."""
    async with database.transaction() as connection:
        await insert_sent(connection, "!r", {(ALICE, "1"): "$1"})
    async with database.transaction() as connection:
        assert await prune_sent(connection, timedelta(days=1)) == 0
        assert await prune_sent(connection, timedelta(0)) == 1
        assert await fetch_sent(connection, "!r", [(ALICE, "1")]) == {}
