"""Common handling of requests."""

from tests.bridge.people.service.scene import Stage
from tests.bridge.provisioning.bridge_manager import manager


async def test_503_before_the_node_has_started(play: Stage) -> None:
    """The client can retry."""
    async with manager(play, is_open=False) as one:
        assert await one.refused("GET", "whoami") == (503, "M_UNKNOWN")
        one.door.set_services(one.services)
        await one.get("whoami")


async def test_503_during_an_outage(play: Stage) -> None:
    """Without revealing addresses."""
    async with manager(play) as one:
        one.accounts.status = 502
        said = await one.ask("GET", "logins")
        assert (said.status, said.body["errcode"]) == (503, "M_UNKNOWN")
        assert "127.0.0.1" not in said.body["error"]
