"""Users and profiles."""

import pytest

from appservice.local_users.memberships import Users
from federation.matrix.errors import MatrixError
from tests.appservice.intakes import OURS
from tests.appservice.local_users.setup import AttachedNode
from tests.appservice.local_users.test_sending import ALICE, GHOST


@pytest.fixture
async def users(attached: AttachedNode) -> Users:
    await attached.parts.ghosts.ensure_user(OURS.node_user)
    return Users(attached.parts)


async def test_users_are_registered_on_demand(attached: AttachedNode, users: Users) -> None:
    """An unregistered ghost has no profile, and no request is made for it."""
    assert await users.profile(GHOST) is None
    assert len(attached.homeserver.targets) == 1
    for _ in range(2):
        await users.ensure_user(GHOST)
        assert await users.profile(GHOST) == {}
    assert len(attached.asked("register")) == 2


async def test_unchanged_profile_is_not_sent(attached: AttachedNode, users: Users) -> None:
    """None leaves a field unchanged, an empty string removes it."""
    await users.ensure_user(GHOST)
    for _ in range(2):
        await users.set_profile(GHOST, displayname="Worker", avatar_url="mxc://their.server/a")
        assert await users.profile(GHOST) == {"displayname": "Worker", "avatar_url": "mxc://their.server/a"}
    assert len(attached.asked("PUT")) == 2
    await users.set_profile(GHOST)
    await users.set_profile(GHOST, displayname="Worker", avatar_url="")
    assert await users.profile(GHOST) == {"displayname": "Worker"}
    assert attached.rooms.profiles[GHOST] == {"displayname": "Worker", "avatar_url": ""}
    assert len(attached.asked("PUT")) == 3
    asked = len(attached.homeserver.targets)
    later = Users(await attached.again())
    await later.set_profile(GHOST, displayname="Worker")
    assert await later.profile(GHOST) == {"displayname": "Worker"}
    assert len(attached.homeserver.targets) == asked
    assert all("user_id=" in target for target in attached.asked("profile"))


async def test_default_display_name_is_replaced(attached: AttachedNode, users: Users) -> None:
    """As Synapse sets one."""
    await users.ensure_user(GHOST)
    attached.rooms.profiles[GHOST] = {"displayname": "_agent_worker-1"}
    assert await users.profile(GHOST) == {"displayname": "_agent_worker-1"}
    await users.set_profile(GHOST, displayname="")
    assert attached.rooms.profiles[GHOST] == {"displayname": ""}


async def test_profiles_of_others_are_requested(attached: AttachedNode, users: Users) -> None:
    """Every time, and as a ghost, because homeservers may restrict profiles."""
    attached.rooms.profiles[ALICE] = {"displayname": "Alice", "avatar_url": None}  # type: ignore[dict-item]
    assert await users.profile(ALICE) == {"displayname": "Alice"}
    attached.rooms.profiles[ALICE] = {"displayname": "Alicia", "io.x": "y"}
    assert await users.profile(ALICE) == {"displayname": "Alicia", "io.x": "y"}
    assert await users.profile("@nobody:their.server") is None
    assert all("user_id=@_agent_palaver" in target for target in attached.asked("profile"))


async def test_invalid_profiles_are_refused(attached: AttachedNode, users: Users) -> None:
    """With a sentence."""
    await users.ensure_user(GHOST)
    for user in (ALICE, "@_agent_x:other.server", "", "\0"):
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await users.set_profile(user, displayname="Mallory")
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await users.set_profile("@_agent_nobody:their.server", displayname="x")
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await users.set_profile(GHOST, displayname="x" * 300)
    for user in ("alice", "", "@a\0:their.server"):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await users.profile(user)
    assert attached.asked("PUT") == []
