"""The invite policy of a homeserver."""

import pytest

from federation.homeserver import build_invite_policy
from federation.matrix.errors import MatrixError
from tests.federation.local_users.homes import Home, homes
from tests.support.postgres import Server


async def test_the_policy_is_asked_about_existing_users(postgres_server: Server, migrated_template: str) -> None:
    """An invite of an unknown user is refused without asking the policy."""
    asked = []

    async def policy(user: str, sender: str, room_id: str) -> None:
        asked.append(user)
        if sender == "@spam:there.test":
            raise MatrixError("M_INVITE_BLOCKED", "No, thanks.", 403)

    async with homes(postgres_server, migrated_template) as running:
        home: Home
        (home,) = await running.start("here.test")
        alice = await home.user("alice")
        invite_policy = build_invite_policy(home.homeserver.profiles, policy)
        await invite_policy(alice, "@bob:there.test", "!r:there.test")
        with pytest.raises(MatrixError, match="403 M_INVITE_BLOCKED"):
            await invite_policy(alice, "@spam:there.test", "!r:there.test")
        for unknown in ("@nobody:here.test", "@bob:there.test"):
            with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
                await invite_policy(unknown, "@bob:there.test", "!r:there.test")
        assert asked == [alice, alice]
        await build_invite_policy(home.homeserver.profiles)(alice, "@spam:there.test", "!r:there.test")
