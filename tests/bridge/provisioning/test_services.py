"""What each request begins and ends with."""

from tests.bridge.people.service.scene import Stage
from tests.bridge.provisioning.bridge_manager import manager


async def test_before_the_node_works_nobody_is_answered(play: Stage) -> None:
    """Whoever comes may come again."""
    async with manager(play, is_open=False) as one:
        assert await one.refused("GET", "whoami") == (503, "M_UNKNOWN")
        one.door.set_services(one.services)
        await one.get("whoami")


async def test_while_something_is_away_it_is_said(play: Stage) -> None:
    """In words that tell nothing of where it is."""
    async with manager(play) as one:
        one.accounts.status = 502
        said = await one.ask("GET", "logins")
        assert (said.status, said.body["errcode"]) == (503, "M_UNKNOWN")
        assert "127.0.0.1" not in said.body["error"]
