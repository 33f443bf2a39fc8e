"""What is kept of EDUs."""

from datetime import timedelta

from storage.database import Database
from storage.federation.edus import (
    ReceiptRow,
    fetch_receipts,
    insert_to_device,
    prune_to_device,
    write_receipts,
)

ROOM = "!room:a.example"


async def test_the_newest_receipt_of_a_thread_counts(database: Database) -> None:
    """One that is older and comes later changes nothing, in one write or in two."""
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


async def test_a_message_to_devices_is_taken_in_once(database: Database) -> None:
    """Its id names it, together with its server; after a while nobody repeats it any more."""
    async with database.transaction() as connection:
        assert await insert_to_device(connection, "b.example", "m1")
        assert not await insert_to_device(connection, "b.example", "m1")
        assert await insert_to_device(connection, "c.example", "m1")
        assert await prune_to_device(connection, timedelta(days=1)) == 0
        assert await prune_to_device(connection, timedelta(days=-1)) == 2
        assert await insert_to_device(connection, "b.example", "m1")
