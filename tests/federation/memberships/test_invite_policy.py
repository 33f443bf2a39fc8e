"""Whether a user may be invited from outside."""

import pytest

from federation.homeserver import invites_for
from federation.matrix.errors import MatrixError
from tests.federation.local_users.homes import Home, homes
from tests.support.postgres import Server


async def test_the_node_is_asked_about_those_that_there_are(
    postgres_server: Server, migrated_template: str
) -> None:
    """Whoever invites somebody who is not there is told so, and the node's own policy is not bothered."""
    asked = []

    async def wants(user: str, sender: str, room_id: str) -> None:
        asked.append(user)
        if sender == "@spam:there.test":
            raise MatrixError("M_INVITE_BLOCKED", "No, thanks.", 403)

    async with homes(postgres_server, migrated_template) as running:
        home: Home
        (home,) = await running.start("here.test")
        alice = await home.user("alice")
        may_be_invited = invites_for(home.homeserver.profiles, wants)
        await may_be_invited(alice, "@bob:there.test", "!r:there.test")
        with pytest.raises(MatrixError, match="403 M_INVITE_BLOCKED"):
            await may_be_invited(alice, "@spam:there.test", "!r:there.test")
        for nobody in ("@nobody:here.test", "@bob:there.test"):
            with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
                await may_be_invited(nobody, "@bob:there.test", "!r:there.test")
        assert asked == [alice, alice]
        await invites_for(home.homeserver.profiles)(alice, "@spam:there.test", "!r:there.test")
