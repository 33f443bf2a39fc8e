"""Aliases and the public room directory."""

import pytest

from appservice.local_users.create_room import MAX_SERVERS, version_of
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side, entry

ALIAS = "#agents-a:their.server"


async def test_aliases_are_idempotent(played: Side) -> None:
    """And never moved from another room."""
    room_id, other = await played.room(), await played.room()
    assert await played.side.resolve_alias(ALIAS) is None
    for _ in range(2):
        await played.side.create_alias(ALIAS, room_id, COOK)
    assert await played.side.resolve_alias(ALIAS) == (room_id, ("their.server", "other.server"))
    with pytest.raises(MatrixError, match="409 M_ROOM_IN_USE"):
        await played.side.create_alias(ALIAS, other, COOK)
    for _ in range(2):
        await played.side.remove_alias(ALIAS)
    assert await played.side.resolve_alias(ALIAS) is None


async def test_invalid_aliases_are_not_sent(played: Side) -> None:
    """Also those of other servers."""
    room_id = await played.room()
    before = len(played.homeserver.targets)
    for wrong in ("#a", "a", "", "#\0:x", "#a:other.server"):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await played.side.create_alias(wrong, room_id, COOK)
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await played.side.remove_alias(wrong)
    for wrong in ("", "!\0:x", "#a:b"):
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await played.side.create_alias(ALIAS, wrong, COOK)
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await played.side.publish(wrong, published=True)
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await played.side.create_alias(ALIAS, room_id, ALICE)
    assert len(played.homeserver.targets) == before


async def test_resolved_servers_are_limited(played: Side) -> None:
    """The homeserver is first."""
    played.rooms.instead["directory"] = {
        "room_id": "!a:b",
        "servers": [*(f"s{n}.test" for n in range(2 * MAX_SERVERS)), "no\n", 7, "their.server"],
    }
    found = await played.side.resolve_alias(ALIAS)
    assert found is not None
    assert len(found[1]) == MAX_SERVERS
    assert found[1][:2] == ("their.server", "s0.test")


async def test_publish_as_the_most_powerful_ghost(played: Side) -> None:
    """Unchanged visibility is not sent."""
    room_id = await played.room(preset="public_chat", power_levels={"users": {COOK: 100}}, version="11")
    await played.side.join(room_id, EVE)
    for _ in range(2):
        await played.side.publish(room_id, published=True)
    assert played.rooms.listed == {room_id}
    for _ in range(2):
        await played.side.publish(room_id, published=False)
    assert played.rooms.listed == set()
    puts = [
        request
        for request in played.homeserver.server.requests
        if request.method == "PUT" and "directory/list" in request.path
    ]
    assert [request.query["user_id"] for request in puts] == [COOK, COOK]
    with pytest.raises(MatrixError, match="M_NOT_FOUND"):
        await played.side.publish("!no:their.server", published=True)


async def test_publish_refusal_is_raised(played: Side) -> None:
    """With the homeserver's text."""
    room_id = await played.room()
    played.rooms.lists = False
    played.rooms.instead[f"list/room/%21{room_id[1:].replace(':', '%3A')}"] = (
        403,
        {"errcode": "M_FORBIDDEN", "error": "Not allowed to publish room"},
    )
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await played.side.publish(room_id, published=True)


def test_version_of() -> None:
    """Without a version it is 1; unknown versions get the default's rules."""
    assert version_of(entry("m.room.create", room_version="12")).id == "12"
    assert version_of(entry("m.room.create")).id == "3"
    for unknown in (entry("m.room.create", room_version="x"), entry("m.room.create", room_version=7), None):
        assert version_of(unknown) is DEFAULT_ROOM_VERSION
