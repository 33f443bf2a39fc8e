"""What all operations of local users share."""

import pytest

from federation.matrix.errors import MatrixError
from tests.federation.local_users.homes import Home


async def test_member_events_have_display_name_and_avatar_only(home: Home) -> None:
    """Other fields of the profile are left out."""
    alice = await home.user("alice", "Alice")
    await home.homeserver.profiles.set_profile(alice, **{"io.x": {"secret": True}})
    room_id = await home.room(alice)
    assert await home.state(room_id, "m.room.member", alice) == {"membership": "join", "displayname": "Alice"}
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await home.rooms.join(room_id, "@nobody:here.test")
