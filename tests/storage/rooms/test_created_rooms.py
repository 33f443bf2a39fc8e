"""Created rooms by the key of their creator."""

from storage.database import Database
from storage.rooms.aliases import delete_created, fetch_created, insert_created


async def test_the_first_room_under_a_key_is_kept(database: Database) -> None:
    """Keys of different creators are independent."""
    async with database.transaction() as connection:
        assert await fetch_created(connection, "@a:b", "kitchen") is None
        assert await insert_created(connection, "@a:b", "kitchen", "!1")
        assert not await insert_created(connection, "@a:b", "kitchen", "!2")
        assert await insert_created(connection, "@c:b", "kitchen", "!3")
        assert await fetch_created(connection, "@a:b", "kitchen") == "!1"
        assert await fetch_created(connection, "@c:b", "kitchen") == "!3"
        await delete_created(connection, "@a:b", "kitchen")
        assert await fetch_created(connection, "@a:b", "kitchen") is None
        assert await fetch_created(connection, "@c:b", "kitchen") == "!3"
