"""Aliases and published rooms."""

from storage.database import Database
from storage.rooms.aliases import (
    Alias,
    delete_alias,
    fetch_alias,
    insert_alias,
    is_published,
    list_aliases_of_room,
    list_published_rooms,
    publish_room,
    unpublish_room,
)

ROOM, OTHER = "!room:here.test", "!other:here.test"


async def test_an_alias_names_one_room(database: Database) -> None:
    """A second room gets it only after it was deleted."""
    first = Alias("#kitchen:here.test", ROOM, "@alice:here.test", 5)
    second = first._replace(room_id=OTHER)
    async with database.transaction() as connection:
        assert await fetch_alias(connection, first.alias) is None
        assert await insert_alias(connection, first)
        assert not await insert_alias(connection, second)
        assert await fetch_alias(connection, first.alias) == first
        assert await delete_alias(connection, first.alias)
        assert not await delete_alias(connection, first.alias)
        assert await insert_alias(connection, second)


async def test_a_room_has_several_aliases(database: Database) -> None:
    """The oldest first."""
    async with database.transaction() as connection:
        for name, when in (("b", 1), ("a", 2), ("c", 2)):
            await insert_alias(connection, Alias(f"#{name}:here.test", ROOM, "@alice:here.test", when))
        await insert_alias(connection, Alias("#d:here.test", OTHER, "@alice:here.test", 1))
        assert await list_aliases_of_room(connection, ROOM) == [f"#{name}:here.test" for name in "bac"]
        assert await list_aliases_of_room(connection, "!none:here.test") == []


async def test_rooms_are_published_and_unpublished(database: Database) -> None:
    """Repeating it is no error."""
    async with database.transaction() as connection:
        for room_id in (ROOM, ROOM, OTHER):
            await publish_room(connection, room_id)
        assert await is_published(connection, ROOM)
        assert await list_published_rooms(connection) == [OTHER, ROOM]
        for _ in range(2):
            await unpublish_room(connection, ROOM)
        assert not await is_published(connection, ROOM)
        assert await list_published_rooms(connection) == [OTHER]
