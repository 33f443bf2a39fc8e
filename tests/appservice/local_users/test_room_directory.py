"""Aliases and the public room directory."""

import pytest

from appservice.local_users.create_room import MAX_SERVERS, version_of
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side, entry

ALIAS = "#agents-a:their.server"


async def test_aliases_are_idempotent(node_with_rooms: Side) -> None:
    """And never moved from another room."""
    room_id, other = await node_with_rooms.room(), await node_with_rooms.room()
    assert await node_with_rooms.side.resolve_alias(ALIAS) is None
    for _ in range(2):
        await node_with_rooms.side.create_alias(ALIAS, room_id, COOK)
    assert await node_with_rooms.side.resolve_alias(ALIAS) == (room_id, ("their.server", "other.server"))
    with pytest.raises(MatrixError, match="409 M_ROOM_IN_USE"):
        await node_with_rooms.side.create_alias(ALIAS, other, COOK)
    for _ in range(2):
        await node_with_rooms.side.remove_alias(ALIAS)
    assert await node_with_rooms.side.resolve_alias(ALIAS) is None
    # Homeservers may require a user with power in the room.
    assert "user_id=@_agent_palaver:their.server" in node_with_rooms.homeserver.targets[-2]


async def test_invalid_aliases_are_not_sent(node_with_rooms: Side) -> None:
    """Also those of other servers."""
    room_id = await node_with_rooms.room()
    before = len(node_with_rooms.homeserver.targets)
    for wrong in ("#a", "a", "", "#\0:x", "#a:other.server"):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await node_with_rooms.side.create_alias(wrong, room_id, COOK)
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await node_with_rooms.side.remove_alias(wrong)
    for wrong in ("", "!\0:x", "#a:b"):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await node_with_rooms.side.create_alias(ALIAS, wrong, COOK)
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await node_with_rooms.side.publish(wrong, published=True)
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await node_with_rooms.side.create_alias(ALIAS, room_id, ALICE)
    assert len(node_with_rooms.homeserver.targets) == before


async def test_resolved_servers_are_limited(node_with_rooms: Side) -> None:
    """The homeserver is first."""
    node_with_rooms.rooms.instead["directory"] = {
        "room_id": "!a:b",
        "servers": [*(f"s{n}.test" for n in range(2 * MAX_SERVERS)), "no\n", 7, "their.server"],
    }
    found = await node_with_rooms.side.resolve_alias(ALIAS)
    assert found is not None
    assert len(found[1]) == MAX_SERVERS
    assert found[1][:2] == ("their.server", "s0.test")


async def test_publish_as_the_most_powerful_ghost(node_with_rooms: Side) -> None:
    """Unchanged visibility is not sent."""
    room_id = await node_with_rooms.room(preset="public_chat", power_levels={"users": {COOK: 100}}, version="11")
    await node_with_rooms.side.join(room_id, EVE)
    for _ in range(2):
        await node_with_rooms.side.publish(room_id, published=True)
    assert node_with_rooms.rooms.listed == {room_id}
    for _ in range(2):
        await node_with_rooms.side.publish(room_id, published=False)
    assert node_with_rooms.rooms.listed == set()
    puts = [
        request
        for request in node_with_rooms.homeserver.server.requests
        if request.method == "PUT" and "directory/list" in request.path
    ]
    assert [request.query["user_id"] for request in puts] == [COOK, COOK]
    with pytest.raises(MatrixError, match="M_NOT_FOUND"):
        await node_with_rooms.side.publish("!no:their.server", published=True)


async def test_publish_refusal_is_raised(node_with_rooms: Side) -> None:
    """With the homeserver's text."""
    room_id = await node_with_rooms.room()
    node_with_rooms.rooms.lists = False
    node_with_rooms.rooms.instead[f"list/room/%21{room_id[1:].replace(':', '%3A')}"] = (
        403,
        {"errcode": "M_FORBIDDEN", "error": "Not allowed to publish room"},
    )
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await node_with_rooms.side.publish(room_id, published=True)


def test_version_of() -> None:
    """Without a version it is 1; unknown versions get the default's rules."""
    assert version_of(entry("m.room.create", room_version="12")).id == "12"
    assert version_of(entry("m.room.create")).id == "3"
    for unknown in (entry("m.room.create", room_version="x"), entry("m.room.create", room_version=7), None):
        assert version_of(unknown) is DEFAULT_ROOM_VERSION
