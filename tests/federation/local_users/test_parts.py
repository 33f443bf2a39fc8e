"""What living in rooms takes."""

import pytest

from federation.matrix.errors import MatrixError
from tests.federation.local_users.homes import Home


async def test_member_events_say_of_users_what_belongs_there(home: Home) -> None:
    """Name and picture, whatever else is in the profile."""
    alice = await home.user("alice", "Alice")
    await home.homeserver.profiles.set_profile(alice, **{"io.x": {"secret": True}})
    room_id = await home.room(alice)
    assert await home.state(room_id, "m.room.member", alice) == {
        "membership": "join",
        "displayname": "Alice",
    }
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await home.rooms.join(room_id, "@nobody:here.test")
