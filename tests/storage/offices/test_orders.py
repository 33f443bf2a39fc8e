"""Tool calls that people have requested in rooms."""

from storage.database import Database
from storage.offices.orders import OrderRow, insert_order, is_order_known, list_unreported, mark_reported, prune


def order(number: int) -> OrderRow:
    return OrderRow(f"$e{number}", "!room:here.test", f"c{number}", number)


async def test_a_message_is_one_order(database: Database) -> None:
    """However often the message is read. It is unreported until its result has been reported."""
    async with database.transaction() as connection:
        assert not await is_order_known(connection, "$e2")
        assert await insert_order(connection, order(2))
        assert await is_order_known(connection, "$e2")
        assert await insert_order(connection, order(1))
        assert not await insert_order(connection, order(2)._replace(call_id="other"))
        assert await list_unreported(connection, 10) == [order(1), order(2)]
        assert await list_unreported(connection, 1) == [order(1)]
        await mark_reported(connection, "$e1")
        assert await list_unreported(connection, 10) == [order(2)]
        assert not await insert_order(connection, order(1))


async def test_old_orders_are_pruned(database: Database) -> None:
    """In batches."""
    async with database.transaction() as connection:
        for number in range(1, 6):
            await insert_order(connection, order(number))
        assert await prune(connection, 4, 2) == 2
        assert await prune(connection, 4, 10) == 1
        assert [row.event_id for row in await list_unreported(connection, 10)] == ["$e4", "$e5"]
