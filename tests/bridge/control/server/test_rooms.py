"""`palaver rooms list` and `show`."""

import pytest

from bridge.control.server import rooms
from storage.rooms.aliases import Alias, insert_alias, publish_room
from tests.bridge.control.server.conftest import Operator


async def test_rooms_are_listed_page_by_page(operator: Operator) -> None:
    """With their settings and numbers of members."""
    node, there = operator.node, operator.there
    alice = node.user("alice")
    for version in ("10", "12"):
        await node.create(version, alice)
    shared = await there.create("11", there.user("carol"))
    await node.membership.join(shared, node.user("bob"), ["there.test"])
    await node.membership.join(shared, alice, ["there.test"])
    first = await operator.ask("rooms-list", limit=2)
    second = await operator.ask("rooms-list", limit=2, after=first["next"])
    listed = {room["room_id"]: room for room in [*first["rooms"], *second["rooms"]]}
    assert (len(first["rooms"]), len(second["rooms"]), second["next"]) == (2, 1, None)
    assert listed[shared] == {
        "room_id": shared,
        "name": None,
        "canonical_alias": None,
        "room_version": "11",
        "room_type": None,
        "members": 3,
        "local_members": 2,
        "servers": 2,
        "extremities": 1,
    }
    assert [room["room_id"] for room in (await operator.ask("rooms-list"))["rooms"]] == sorted(listed)


async def test_rooms_are_searched(operator: Operator) -> None:
    """By their fields. Rooms without members are found too."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    await node.create("12", alice)
    await node.graph.send_event(room_id, "m.room.topic", {"topic": "All about Soup"}, alice, "")
    await node.membership.leave(room_id, alice)
    found = await operator.ask("rooms-list", search="soup")
    assert [(room["room_id"], room["members"]) for room in found["rooms"]] == [(room_id, 0)]
    assert (await operator.ask("rooms-list", search="salad"))["rooms"] == []


@pytest.mark.parametrize("version", ["10", "12"])
async def test_a_room_is_shown(operator: Operator, version: str) -> None:
    """With the settings, members, power levels and latest events."""
    node, there = operator.node, operator.there
    alice, bob, carol = node.user("alice"), node.user("bob"), there.user("carol")
    room_id = await node.create(version, alice, levels={"ban": 60})
    await node.graph.send_event(room_id, "m.room.name", {"name": "Kitchen"}, alice, "")
    await node.graph.send_event(room_id, "m.room.topic", {"topic": "Soup"}, alice, "")
    await node.graph.send_event(room_id, "m.room.history_visibility", {"history_visibility": "joined"}, alice, "")
    await node.graph.send_event(room_id, "m.room.server_acl", {"allow": ["*"]}, alice, "")
    await there.membership.join(room_id, carol, ["here.test"])
    await node.membership.invite(room_id, alice, bob)
    sent = await node.say(room_id, alice, "hello")
    async with node.database.transaction() as connection:
        await insert_alias(connection, Alias("#kitchen:here.test", room_id, alice, 1))
        await publish_room(connection, room_id)
    room = await operator.ask("rooms-show", room=room_id)
    assert room["name"] == "Kitchen"
    assert (room["topic"], room["room_version"], room["join_rule"]) == ("Soup", version, "public")
    assert (room["creators"], room["federates"]) == ([alice], True)
    assert (room["history_visibility"], room["has_server_acl"], room["replaced_by"]) == ("joined", True, None)
    assert (room["aliases_here"], room["published_here"]) == (["#kitchen:here.test"], True)
    assert room["memberships"] == {"join": 2, "invite": 1}
    assert room["by_server"] == {"here.test": 1, "there.test": 1}
    assert room["local_users"] == {alice: "join", bob: "invite"}
    assert room["power_levels"]["ban"] == 60
    assert room["power_levels"]["users"] == ({} if version == "12" else {alice: 100})
    assert room["extremity_ids"] == [sent]
    assert room["latest_events"][0]["event_id"] == sent
    assert [event["type"] for event in room["latest_events"]][:2] == ["m.room.message", "m.room.member"]
    assert "hello" not in str(room["latest_events"])


async def test_a_replaced_room_names_its_replacement(operator: Operator) -> None:
    """Other settings may be missing."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    await node.graph.send_event(room_id, "m.room.tombstone", {"replacement_room": "!new"}, alice, "")
    room = await operator.ask("rooms-show", room=room_id)
    assert (room["replaced_by"], room["history_visibility"], room["has_server_acl"]) == ("!new", None, False)


async def test_a_large_room_is_shown_in_part(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is counted."""
    monkeypatch.setattr(rooms, "MAX_USERS", 2)
    monkeypatch.setattr(rooms, "MAX_SERVERS", 1)
    node, there = operator.node, operator.there
    room_id = await node.create("12", node.user("alice"))
    for name in ("bob", "carol"):
        await node.membership.join(room_id, node.user(name))
    await there.membership.join(room_id, there.user("dave"), ["here.test"])
    room = await operator.ask("rooms-show", room=room_id)
    assert (len(room["local_users"]), room["local_members"]) == (2, 3)
    assert (room["by_server"], room["servers"]) == ({"here.test": 3}, 2)
