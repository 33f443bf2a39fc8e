"""Stored EDUs."""

from datetime import timedelta

from storage.database import Database
from storage.federation.edus import ReceiptRow, fetch_receipts, insert_to_device, prune_to_device, write_receipts

ROOM = "!room:a.example"


async def test_the_newest_receipt_of_a_thread_counts(database: Database) -> None:
    """An older receipt that arrives later changes nothing, in the same write or another."""
    async with database.transaction() as connection:
        await write_receipts(
            connection,
            [
                ReceiptRow(ROOM, "@b:b.example", "", "$2", 2),
                ReceiptRow(ROOM, "@b:b.example", "", "$1", 1),
                ReceiptRow(ROOM, "@b:b.example", "$t", "$3", 3),
            ],
        )
        await write_receipts(connection, [ReceiptRow(ROOM, "@b:b.example", "$t", "$0", 1)])
        await write_receipts(connection, [])
        assert await fetch_receipts(connection, ROOM) == [
            ReceiptRow(ROOM, "@b:b.example", "", "$2", 2),
            ReceiptRow(ROOM, "@b:b.example", "$t", "$3", 3),
        ]


async def test_a_to_device_message_is_received_once(database: Database) -> None:
    """It is identified by message id and origin; old ids are pruned."""
    async with database.transaction() as connection:
        assert await insert_to_device(connection, "b.example", "m1")
        assert not await insert_to_device(connection, "b.example", "m1")
        assert await insert_to_device(connection, "c.example", "m1")
        assert await prune_to_device(connection, timedelta(days=1)) == 0
        assert await prune_to_device(connection, timedelta(days=-1)) == 2
        assert await insert_to_device(connection, "b.example", "m1")
