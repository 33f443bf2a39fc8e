"""Common handling of requests."""

from tests.bridge.people.service.running_node import Servers
from tests.bridge.provisioning.bridge_manager import manager


async def test_503_before_the_node_has_started(servers: Servers) -> None:
    """The client can retry."""
    async with manager(servers, is_open=False) as one:
        assert await one.refused("GET", "whoami") == (503, "M_UNKNOWN")
        one.door.set_services(one.services)
        await one.get("whoami")


async def test_503_during_an_outage(servers: Servers) -> None:
    """Without revealing addresses."""
    async with manager(servers) as one:
        one.accounts.status = 502
        said = await one.ask("GET", "logins")
        assert (said.status, said.body["errcode"]) == (503, "M_UNKNOWN")
        assert "127.0.0.1" not in said.body["error"]
