"""Rooms, and who may write to one."""

import asyncio

from storage.database import Database
from storage.rooms.rooms import RoomRow, fetch_rooms, insert_room, list_rooms, lock_rooms, update_rooms

KITCHEN = RoomRow("!kitchen", "12", 1, ["$a"], 7)
GARDEN = RoomRow("!garden", "11", 1, ["$b", "$c"], 8)


async def test_a_room_is_inserted_once(database: Database) -> None:
    """Whoever is second is told, and changes nothing."""
    async with database.transaction() as connection:
        assert await insert_room(connection, KITCHEN)
        assert not await insert_room(connection, KITCHEN._replace(version="11"))
        assert await fetch_rooms(connection, ["!kitchen", "!unknown"]) == [KITCHEN]


async def test_rooms_are_changed_together(database: Database) -> None:
    """One statement for all rooms of a transaction; the version never changes."""
    async with database.transaction() as connection:
        for room in (KITCHEN, GARDEN):
            await insert_room(connection, room)
        changed = [KITCHEN._replace(generation=2, state_group=9), GARDEN._replace(forward_extremities=["$d"])]
        await update_rooms(connection, changed)
        await update_rooms(connection, [])
        assert await list_rooms(connection) == [changed[1], changed[0]]


async def test_of_two_writers_the_second_waits_and_sees_what_the_first_did(database: Database) -> None:
    """The lock is held to the end of the transaction, whatever order the rooms are named in."""
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
            while not await other.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            ):
                pass
        order.append("first")
    assert await waiting == [GARDEN._replace(generation=2), KITCHEN]
    assert order == ["first", "second"]
