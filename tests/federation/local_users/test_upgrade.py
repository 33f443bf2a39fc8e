"""Room upgrades."""

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.creation import InitialState
from tests.federation.local_users.homes import Home

STEPS = pytest.mark.parametrize(("before", "after"), [("10", "11"), ("11", "12"), ("12", "12")])


@STEPS
async def test_a_room_is_replaced_by_one_of_another_version(pair: tuple[Home, Home], before: str, after: str) -> None:
    """Aliases move, the old room refers to the new one and is muted, and remote members can follow."""
    here, there = pair
    alice, bob = await here.user("alice", "Alice"), await there.user("bob")
    old = await here.room(
        alice,
        version=before,
        alias="kitchen",
        listed=True,
        name="Kitchen",
        room_type="io.a2c.office",
        initial_state=[InitialState("io.a2c.office.agent", {"agent": alice})],
    )
    await there.rooms.join(old, bob, via=["here.test"])
    await here.rooms.ban(old, alice, "@spam:evil.example")
    new = await here.rooms.upgrade_room(old, alice, after, also=["io.a2c.office.agent"])
    create = await here.state(new, "m.room.create")
    assert (create["room_version"], create["type"]) == (after, "io.a2c.office")
    assert create["predecessor"]["room_id"] == old
    assert ("event_id" in create["predecessor"]) == (after != "12")
    assert await here.state(new, "m.room.name") == {"name": "Kitchen"}
    assert await here.state(new, "io.a2c.office.agent") == {"agent": alice}
    assert await here.rooms.membership(new, "@spam:evil.example") == "ban"
    assert await here.state(new, "m.room.member", alice) == {"membership": "join", "displayname": "Alice"}
    levels = await here.state(new, "m.room.power_levels")
    assert levels["events"]["m.room.tombstone"] == (150 if after == "12" else 100)
    assert (alice in levels["users"]) == (after != "12")
    # The aliases.
    assert await there.rooms.resolve_alias("#kitchen:here.test") == (new, ("here.test",))
    assert await here.state(new, "m.room.canonical_alias") == {"alias": "#kitchen:here.test"}
    assert await here.state(old, "m.room.canonical_alias") == {}
    assert await here.homeserver.directory.is_published(new)
    assert not await here.homeserver.directory.is_published(old)
    # The old room.
    await there.until(lambda event: event.content.get("replacement_room") == new)
    await there.until(lambda event: event.content.get("events_default") == 50)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await there.say(old, bob, "anybody here?")
    assert await there.rooms.join(new, bob, via=["here.test"]) == new


async def test_an_upgrade_is_idempotent(home: Home) -> None:
    """After a crash, calling it again does the missing steps."""
    alice = await home.user("alice")
    old = await home.room(alice, version="11", alias="kitchen")
    new = await home.rooms.upgrade_room(old, alice, "12")
    generation = await home.graph.room(old)
    assert await home.rooms.upgrade_room(old, alice, "12") == new
    assert await home.graph.room(old) == generation
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await home.rooms.upgrade_room(old, await home.user("eve"), "12")


async def test_a_user_without_the_power_creates_no_room(home: Home) -> None:
    """The auth rules are checked first."""
    alice, bob = await home.user("alice"), await home.user("bob")
    old = await home.room(alice)
    await home.rooms.join(old, bob)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await home.rooms.upgrade_room(old, bob, "12")
    with pytest.raises(MatrixError, match="M_UNSUPPORTED_ROOM_VERSION"):
        await home.rooms.upgrade_room(old, alice, "9")
    assert await home.rooms.joined_rooms(bob) == [old]
    assert await home.rooms.joined_rooms(alice) == [old]
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await home.rooms.upgrade_room("!no:here.test", alice, "12")


async def test_an_upgrade_does_not_raise_the_users_power(home: Home) -> None:
    """Up to room version 11 the user has full power only while the room is created."""
    alice, bob = await home.user("alice"), await home.user("bob")
    old = await home.room(
        alice,
        version="10",
        power_levels={"users": {bob: 50}, "events": {"m.room.tombstone": 50}},
        history_visibility="joined",
    )
    await home.rooms.join(old, bob)
    new = await home.rooms.upgrade_room(old, bob, "11")
    levels = await home.state(new, "m.room.power_levels")
    assert levels["users"] == {alice: 100, bob: 50}
    assert await home.state(new, "m.room.history_visibility") == {"history_visibility": "joined"}


async def test_references_to_the_old_room_are_updated(home: Home) -> None:
    """Where the user has the power: spaces list the new room, the rooms of a space refer to the new space,
    and join rules admit members of the new room."""
    alice, bob = await home.user("alice"), await home.user("bob")
    space, room_id = await home.room(alice, room_type="m.space"), await home.room(alice)
    await home.rooms.add_to_space(space, room_id, alice, order="1")
    closed = await home.room(alice, join_rule="restricted", allow=[space])
    others = await home.room(bob, room_type="m.space")
    await home.rooms.join(others, alice)
    await home.rooms.add_to_space(others, space, bob)
    new_room = await home.rooms.upgrade_room(room_id, alice, "12")
    assert await home.state(space, "m.space.child", new_room) == {"via": ["here.test"], "order": "1"}
    assert await home.state(space, "m.space.child", room_id) == {}
    assert await home.state(new_room, "m.space.parent", space) == {"via": ["here.test"]}
    new_space = await home.rooms.upgrade_room(space, alice, "12")
    assert await home.state(new_space, "m.space.child", new_room) == {"via": ["here.test"], "order": "1"}
    assert await home.state(new_space, "m.space.child", room_id) is None
    assert await home.state(new_room, "m.space.parent", new_space) == {"via": ["here.test"]}
    assert await home.state(new_room, "m.space.parent", space) == {}
    rule = await home.state(closed, "m.room.join_rules")
    assert [one["room_id"] for one in rule["allow"]] == [space, new_space]
    # Alice has no power in Bob's space.
    assert await home.state(others, "m.space.child", space) == {"via": ["here.test"]}
