"""Upgrading rooms."""

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.creation import InitialState
from storage.connect import ConnectionLost
from storage.database import Database
from tests.appservice.intakes import IntakeHarness
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side, side_on

ALIAS = "#agents-kitchen:their.server"


async def kitchen(node_with_rooms: Side) -> str:
    """A room with an alias, a directory entry, a ban, and custom state."""
    room_id = await node_with_rooms.room(
        version="11",
        preset="public_chat",
        alias="agents-kitchen",
        name="Kitchen",
        listed=True,
        initial_state=[InitialState("io.x", {"n": 1}, "k")],
    )
    await node_with_rooms.side.ban(room_id, COOK, "@spam:their.server", reason="spam")
    return room_id


def content(node_with_rooms: Side, room_id: str, type_: str, state_key: str = "") -> object:
    entry = node_with_rooms.rooms.entry(room_id, type_, state_key)
    return None if entry is None else entry["content"]


async def test_upgrade(node_with_rooms: Side) -> None:
    """Aliases, directory entry and bans move; the old room has a tombstone and is muted. A repetition changes
    nothing."""
    old = await kitchen(node_with_rooms)
    space = await node_with_rooms.room(room_type="m.space")
    await node_with_rooms.side.add_to_space(space, old, COOK, order="3")
    new = await node_with_rooms.side.upgrade_room(old, COOK, "12", also=["io.x"])
    assert content(node_with_rooms, new, "m.room.name") == {"name": "Kitchen"}
    assert content(node_with_rooms, new, "io.x", "k") == {"n": 1}
    assert content(node_with_rooms, new, "m.room.member", "@spam:their.server") == {
        "membership": "ban",
        "reason": "spam",
    }
    assert node_with_rooms.rooms.aliases == {ALIAS: new}
    assert content(node_with_rooms, new, "m.room.canonical_alias") == {"alias": ALIAS}
    assert content(node_with_rooms, old, "m.room.canonical_alias") == {}
    assert node_with_rooms.rooms.listed == {new}
    tombstone = node_with_rooms.rooms.entry(old, "m.room.tombstone", "")
    assert tombstone is not None
    assert tombstone["content"]["replacement_room"] == new
    levels = node_with_rooms.rooms.entry(old, "m.room.power_levels", "")
    assert levels is not None
    assert (levels["content"]["events_default"], levels["content"]["invite"]) == (50, 50)
    child = node_with_rooms.rooms.entry(space, "m.space.child", new)
    assert child is not None
    assert child["content"]["order"] == "3"
    assert content(node_with_rooms, space, "m.space.child", old) == {}
    before = node_with_rooms.rooms.count
    assert await node_with_rooms.side.upgrade_room(old, COOK, "12", also=["io.x"]) == new
    assert (node_with_rooms.rooms.count, node_with_rooms.rooms.made) == (before, 3)


@pytest.mark.parametrize("ends", ["begun", "lost"])
async def test_interrupted_upgrade_is_completed(
    node_with_rooms: Side, database: Database, harness: IntakeHarness, ends: str
) -> None:
    """Also by another process, whichever was killed."""
    old = await kitchen(node_with_rooms)
    node_with_rooms.rooms.ends = ends
    with pytest.raises(ConnectionLost):
        await node_with_rooms.side.upgrade_room(old, COOK, "11")
    assert content(node_with_rooms, old, "m.room.tombstone") is None
    async with side_on(database, harness, node_with_rooms.rooms) as second:
        new = await second.side.upgrade_room(old, COOK, "11")
    assert node_with_rooms.rooms.made == 2
    assert content(node_with_rooms, new, "m.room.name") == {"name": "Kitchen"}
    levels = node_with_rooms.rooms.entry(new, "m.room.power_levels", "")
    assert levels is not None
    assert levels["content"]["users"] == {COOK: 100}
    assert node_with_rooms.rooms.aliases == {ALIAS: new}
    assert content(node_with_rooms, old, "m.room.tombstone") is not None


async def test_aliases_of_people_stay(node_with_rooms: Side) -> None:
    """A homeserver lets only their creators remove them."""
    old = await kitchen(node_with_rooms)
    node_with_rooms.rooms.aliases["#soup:their.server"] = old
    new = await node_with_rooms.side.upgrade_room(old, COOK, "12")
    assert node_with_rooms.rooms.aliases == {ALIAS: new, "#soup:their.server": old}


async def test_upgrade_without_permission_creates_nothing(node_with_rooms: Side) -> None:
    """Nor for an unsupported version."""
    old = await node_with_rooms.room(version="11", preset="public_chat")
    await node_with_rooms.side.join(old, EVE)
    for user in (EVE, ALICE):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await node_with_rooms.side.upgrade_room(old, user, "12")
    for version in ("9", "x", ""):
        with pytest.raises(MatrixError, match="M_UNSUPPORTED_ROOM_VERSION"):
            await node_with_rooms.side.upgrade_room(old, COOK, version)
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        await node_with_rooms.side.upgrade_room(old, COOK, "12", also=["m.room.member"])
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await node_with_rooms.side.upgrade_room("!no:their.server", COOK, "12")
    assert node_with_rooms.rooms.made == 1
    new = await node_with_rooms.side.upgrade_room(old, COOK, "12")
    await node_with_rooms.side.kick(old, COOK, EVE)
    with pytest.raises(MatrixError, match="was already upgraded"):
        await node_with_rooms.side.upgrade_room(old, EVE, "12")
    assert node_with_rooms.rooms.made == 2
    assert new != old
