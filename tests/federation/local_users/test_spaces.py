"""Rooms in spaces, and server ACLs."""

import pytest

from federation.matrix.errors import MatrixError
from tests.federation.local_users.homes import Home


async def test_a_room_is_added_to_a_space_and_removed(home: Home) -> None:
    """Both rooms refer to each other. Repeating an operation has no effect."""
    alice = await home.user("alice")
    space = await home.room(alice, room_type="m.space")
    room_id = await home.room(alice)
    for _ in range(2):
        await home.rooms.add_to_space(space, room_id, alice, order="1", suggested=True)
    assert await home.state(space, "m.space.child", room_id) == {"via": ["here.test"], "order": "1", "suggested": True}
    assert await home.state(room_id, "m.space.parent", space) == {"via": ["here.test"]}
    before = await home.graph.room(space)
    await home.rooms.add_to_space(space, room_id, alice, order="1", suggested=True)
    assert await home.graph.room(space) == before
    for _ in range(2):
        await home.rooms.remove_from_space(space, room_id, alice)
    assert await home.state(space, "m.space.child", room_id) == {}
    assert await home.state(room_id, "m.space.parent", space) == {}


async def test_the_parent_event_is_optional(home: Home) -> None:
    """A room that the user may not change, or that is unknown here, is added to the space nevertheless;
    power in the space is required."""
    alice, bob = await home.user("alice"), await home.user("bob")
    space, room_id = await home.room(alice, room_type="m.space"), await home.room(bob)
    await home.rooms.add_to_space(space, room_id, alice)
    await home.rooms.add_to_space(space, "!elsewhere:there.test", alice)
    assert await home.state(room_id, "m.space.parent", space) is None
    children = await home.rooms.state(space, "m.space.child")
    assert {event.state_key for event in children} == {room_id, "!elsewhere:there.test"}
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await home.rooms.add_to_space(space, room_id, bob, order="1")


async def test_a_server_acl_must_allow_this_server(home: Home) -> None:
    """Others are refused."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    assert await home.rooms.server_acl(room_id) is None
    await home.rooms.set_server_acl(room_id, alice, deny=["evil.example"])
    acl = await home.rooms.server_acl(room_id)
    assert acl == {"allow": ["*"], "deny": ["evil.example"], "allow_ip_literals": True}
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await home.rooms.set_server_acl(room_id, alice, deny=["*.test"])
    assert await home.rooms.server_acl(room_id) == acl
