"""Rooms and their locks."""

import asyncio

from storage.database import Database
from storage.rooms.rooms import RoomRow, fetch_rooms, insert_room, list_rooms, lock_rooms, update_rooms

KITCHEN = RoomRow("!kitchen", "12", 1, ["$a"], 7)
GARDEN = RoomRow("!garden", "11", 1, ["$b", "$c"], 8)


async def test_a_room_is_inserted_once(database: Database) -> None:
    """A second insert returns False and changes nothing."""
    async with database.transaction() as connection:
        assert await insert_room(connection, KITCHEN)
        assert not await insert_room(connection, KITCHEN._replace(version="11"))
        assert await fetch_rooms(connection, ["!kitchen", "!unknown"]) == [KITCHEN]


async def test_rooms_are_updated_together(database: Database) -> None:
    """By one statement for all rooms of a transaction; the version never changes."""
    async with database.transaction() as connection:
        for room in (KITCHEN, GARDEN):
            await insert_room(connection, room)
        changed = [KITCHEN._replace(generation=2, state_group=9), GARDEN._replace(forward_extremities=["$d"])]
        await update_rooms(connection, changed)
        await update_rooms(connection, [])
        assert await list_rooms(connection) == [changed[1], changed[0]]


async def test_a_second_writer_waits_and_sees_the_changes_of_the_first(database: Database) -> None:
    """The lock is held until the end of the transaction, in whatever order the rooms are named."""
    async with database.transaction() as connection:
        for room in (KITCHEN, GARDEN):
            await insert_room(connection, room)
    order: list[str] = []

    async def second() -> list[RoomRow]:
        async with database.transaction() as connection:
            rows = await lock_rooms(connection, ["!kitchen", "!garden"])
            order.append("second")
            return rows

    async with database.transaction() as connection:
        assert await lock_rooms(connection, ["!garden", "!unknown"]) == [GARDEN]
        waiting = asyncio.create_task(second())
        await update_rooms(connection, [GARDEN._replace(generation=2)])
        async with database.connection() as other:
            while not await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
                pass
        order.append("first")
    assert await waiting == [GARDEN._replace(generation=2), KITCHEN]
    assert order == ["first", "second"]
