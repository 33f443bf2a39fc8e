"""Spaces and server ACLs."""

from typing import Any

import pytest

from federation.matrix.errors import MatrixError
from tests.appservice.local_users.fake_homeserver import COOK, EVE, Side


async def test_add_and_remove(node_with_rooms: Side) -> None:
    """Both rooms have the state, with servers to join through: the homeserver first."""
    space, room_id = await node_with_rooms.room(room_type="m.space"), await node_with_rooms.room()
    node_with_rooms.rooms.moves(room_id, "@a:a.test", "join")
    await node_with_rooms.tell()
    for _ in range(2):
        await node_with_rooms.side.add_to_space(space, room_id, COOK, order="1", suggested=True)
    child = await node_with_rooms.side.state_event(space, "m.space.child", room_id)
    parent = await node_with_rooms.side.state_event(room_id, "m.space.parent", space)
    assert child is not None
    assert child.content == {"via": ["their.server", "a.test"], "order": "1", "suggested": True}
    assert parent is not None
    assert parent.content == {"via": ["their.server"]}
    for _ in range(2):
        await node_with_rooms.side.remove_from_space(space, room_id, COOK)
    for where, type_ in ((space, "m.space.child"), (room_id, "m.space.parent")):
        said = [one for one in node_with_rooms.rooms.happened[where] if one["type"] == type_]
        assert len(said) == 2
        assert said[-1]["content"] == {}


async def test_space_child_is_sufficient(node_with_rooms: Side) -> None:
    """An unknown room can be in a space."""
    space = await node_with_rooms.room(room_type="m.space")
    await node_with_rooms.side.add_to_space(space, "!elsewhere:other.server", COOK)
    child = await node_with_rooms.side.state_event(space, "m.space.child", "!elsewhere:other.server")
    assert child is not None
    assert child.content == {"via": ["their.server"]}
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await node_with_rooms.side.add_to_space(space, "!other:other.server", EVE)
    with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
        await node_with_rooms.side.add_to_space(space, "!other:other.server", COOK, order="ü")


async def test_acl_that_excludes_the_homeserver_is_refused(node_with_rooms: Side) -> None:
    """No ghost could ever revert it."""
    room_id = await node_with_rooms.room()
    assert await node_with_rooms.side.server_acl(room_id) is None
    for _ in range(2):
        await node_with_rooms.side.set_server_acl(room_id, COOK, deny=["evil.example"])
    acl = await node_with_rooms.side.server_acl(room_id)
    assert acl == {"allow": ["*"], "deny": ["evil.example"], "allow_ip_literals": True}
    wrongs: list[dict[str, Any]] = [{"deny": ["their.*"]}, {"allow": ["other.server"]}, {"allow": []}]
    for wrong in wrongs:
        with pytest.raises(MatrixError, match="M_INVALID_PARAM"):
            await node_with_rooms.side.set_server_acl(room_id, COOK, **wrong)
    said = [one for one in node_with_rooms.rooms.happened[room_id] if one["type"] == "m.room.server_acl"]
    assert len(said) == 1
