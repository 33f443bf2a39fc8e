"""The paths of the API."""

from bridge.provisioning.routes import ROUTES, V3
from tests.bridge.people.service.running_node import Servers
from tests.bridge.provisioning.bridge_manager import manager


def test_every_path_has_a_preflight() -> None:
    """For browsers."""
    asked = {route.path for route in ROUTES if route.method == "OPTIONS"}
    assert asked == {route.path for route in ROUTES if route.method != "OPTIONS"}
    assert all(path.startswith(f"{V3}/") for path in asked)


async def test_preflight_needs_no_token(servers: Servers) -> None:
    """Browsers do not send one."""
    async with manager(servers) as one:
        said = await one.ask("OPTIONS", "whoami", token=None)
        assert (said.status, said.headers["Access-Control-Allow-Origin"]) == (204, "*")
        assert "Authorization" in said.headers["Access-Control-Allow-Headers"]
        assert (await one.ask("GET", "whoami")).headers["Access-Control-Allow-Origin"] == "*"
