"""Upgrading rooms."""

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.creation import InitialState
from storage.connect import ConnectionLost
from storage.database import Database
from tests.appservice.intakes import Appservice
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side, side_on

ALIAS = "#agents-kitchen:their.server"


async def kitchen(played: Side) -> str:
    """A room with an alias, a directory entry, a ban, and custom state."""
    room_id = await played.room(
        version="11",
        preset="public_chat",
        alias="agents-kitchen",
        name="Kitchen",
        listed=True,
        initial_state=[InitialState("io.x", {"n": 1}, "k")],
    )
    await played.side.ban(room_id, COOK, "@spam:their.server", reason="spam")
    return room_id


def content(played: Side, room_id: str, type_: str, state_key: str = "") -> object:
    entry = played.rooms.entry(room_id, type_, state_key)
    return None if entry is None else entry["content"]


async def test_upgrade(played: Side) -> None:
    """Aliases, directory entry and bans move; the old room has a tombstone and is muted. A repetition changes
    nothing."""
    old = await kitchen(played)
    space = await played.room(room_type="m.space")
    await played.side.add_to_space(space, old, COOK, order="3")
    new = await played.side.upgrade_room(old, COOK, "12", also=["io.x"])
    assert content(played, new, "m.room.name") == {"name": "Kitchen"}
    assert content(played, new, "io.x", "k") == {"n": 1}
    assert content(played, new, "m.room.member", "@spam:their.server") == {
        "membership": "ban",
        "reason": "spam",
    }
    assert played.rooms.aliases == {ALIAS: new}
    assert content(played, new, "m.room.canonical_alias") == {"alias": ALIAS}
    assert content(played, old, "m.room.canonical_alias") == {}
    assert played.rooms.listed == {new}
    tombstone = played.rooms.entry(old, "m.room.tombstone", "")
    assert tombstone is not None
    assert tombstone["content"]["replacement_room"] == new
    levels = played.rooms.entry(old, "m.room.power_levels", "")
    assert levels is not None
    assert (levels["content"]["events_default"], levels["content"]["invite"]) == (50, 50)
    child = played.rooms.entry(space, "m.space.child", new)
    assert child is not None
    assert child["content"]["order"] == "3"
    assert content(played, space, "m.space.child", old) == {}
    before = played.rooms.count
    assert await played.side.upgrade_room(old, COOK, "12", also=["io.x"]) == new
    assert (played.rooms.count, played.rooms.made) == (before, 3)


@pytest.mark.parametrize("ends", ["begun", "lost"])
async def test_interrupted_upgrade_is_completed(
    played: Side, database: Database, guest: Appservice, ends: str
) -> None:
    """Also by another process, whichever was killed."""
    old = await kitchen(played)
    played.rooms.ends = ends
    with pytest.raises(ConnectionLost):
        await played.side.upgrade_room(old, COOK, "11")
    assert content(played, old, "m.room.tombstone") is None
    async with side_on(database, guest, played.rooms) as second:
        new = await second.side.upgrade_room(old, COOK, "11")
    assert played.rooms.made == 2
    assert content(played, new, "m.room.name") == {"name": "Kitchen"}
    levels = played.rooms.entry(new, "m.room.power_levels", "")
    assert levels is not None
    assert levels["content"]["users"] == {COOK: 100}
    assert played.rooms.aliases == {ALIAS: new}
    assert content(played, old, "m.room.tombstone") is not None


async def test_aliases_of_people_stay(played: Side) -> None:
    """A homeserver lets only their creators remove them."""
    old = await kitchen(played)
    played.rooms.aliases["#soup:their.server"] = old
    new = await played.side.upgrade_room(old, COOK, "12")
    assert played.rooms.aliases == {ALIAS: new, "#soup:their.server": old}


async def test_upgrade_without_permission_creates_nothing(played: Side) -> None:
    """Nor for an unsupported version."""
    old = await played.room(version="11", preset="public_chat")
    await played.side.join(old, EVE)
    for user in (EVE, ALICE):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await played.side.upgrade_room(old, user, "12")
    for version in ("9", "x", ""):
        with pytest.raises(MatrixError, match="M_UNSUPPORTED_ROOM_VERSION"):
            await played.side.upgrade_room(old, COOK, version)
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        await played.side.upgrade_room(old, COOK, "12", also=["m.room.member"])
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await played.side.upgrade_room("!no:their.server", COOK, "12")
    assert played.rooms.made == 1
    new = await played.side.upgrade_room(old, COOK, "12")
    await played.side.kick(old, COOK, EVE)
    with pytest.raises(MatrixError, match="was already upgraded"):
        await played.side.upgrade_room(old, EVE, "12")
    assert played.rooms.made == 2
    assert new != old
