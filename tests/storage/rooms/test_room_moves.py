"""Moving aliases and the entry in the public room list to another room."""

from storage.database import Database
from storage.rooms.aliases import Alias, insert_alias, is_published, list_aliases_of_room, move_to_room, publish_room


async def test_aliases_and_publication_are_moved(database: Database) -> None:
    """Those of other rooms stay."""
    async with database.transaction() as connection:
        for alias, room_id in (("#a:x", "!old"), ("#b:x", "!old"), ("#c:x", "!other")):
            await insert_alias(connection, Alias(alias, room_id, "@u:x", 1))
        await publish_room(connection, "!old")
        await move_to_room(connection, "!old", "!new")
        assert await list_aliases_of_room(connection, "!new") == ["#a:x", "#b:x"]
        assert await list_aliases_of_room(connection, "!old") == []
        assert await list_aliases_of_room(connection, "!other") == ["#c:x"]
        assert await is_published(connection, "!new")
        assert not await is_published(connection, "!old")
