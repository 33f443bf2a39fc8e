"""What living in rooms takes."""

import pytest

from federation.errors import MatrixError
from federation.service.directory import Directory
from federation.service.living import parts
from federation.service.media import Media
from federation.service.profiles import Profiles
from tests.federation.service.living.homes import Home


def test_what_is_needed_is_what_there_is() -> None:
    """mypy compares the signatures where the homeserver is put together; here the names are."""
    for needed, there in (
        (parts.Profiles, Profiles),
        (parts.Directory, Directory),
        (parts.MediaRepository, Media),
    ):
        names = {name for name in vars(needed) if not name.startswith("_")}
        assert names <= set(dir(there))


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
