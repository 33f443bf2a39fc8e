"""Rooms of offices and their aliases."""

from bridge.connectors.offices.rooms.office_room import alias, alias_localpart
from bridge.connectors.offices.rooms.rooms import OfficeRooms
from storage.offices import rooms as office_rooms
from tests.bridge.connectors.offices.connectors import room_parts
from tests.bridge.connectors.offices.rooms.test_archiving import used_once
from tests.federation.nodes import Node

# Too long for an alias.
LONG = "o" * 255


async def test_an_office_is_found_by_its_alias(node: Node) -> None:
    """If it has a room. Looking it up creates nothing."""
    await used_once(node)
    rooms = OfficeRooms(room_parts(node, []))
    assert await rooms.has_alias("office-a")
    for localpart in ("office-b", "office-A", "office-", "agents-a", f"office-=sha256-{'0' * 40}", "office-=00"):
        assert not await rooms.has_alias(localpart)
        assert not await rooms.ensure_alias(localpart)


async def test_a_removed_alias_is_created_again(node: Node) -> None:
    """For the same room."""
    room_id = await used_once(node)
    rooms, name = OfficeRooms(room_parts(node, [])), alias("a", node.name)
    await node.rooms.remove_alias(name)
    for _ in range(2):
        assert await rooms.ensure_alias("office-a")
        found = await node.rooms.resolve_alias(name)
        assert found is not None
        assert found[0] == room_id


async def test_an_office_with_a_long_id_is_found(node: Node) -> None:
    """By the hash in its alias."""
    parts = room_parts(node, [])
    room_id = await parts.room_of(LONG)
    localpart = alias_localpart(LONG, node.name)
    assert "sha256" in localpart
    rooms = OfficeRooms(parts)
    assert not await rooms.has_alias(localpart)
    async with node.database.transaction() as connection:
        await connection.execute("INSERT INTO office_rooms (office_id, position, used_at_ms) VALUES ($1, 1, 1)", LONG)
        assert await office_rooms.list_offices(connection) == [LONG]
    await node.rooms.remove_alias(alias(LONG, node.name))
    assert await rooms.ensure_alias(localpart)
    found = await node.rooms.resolve_alias(alias(LONG, node.name))
    assert found is not None
    assert found[0] == room_id
