"""The paths, as managers of bridges ask for them."""

from bridge.provisioning.routes import ROUTES, V3
from tests.bridge.people.service.scene import Stage
from tests.bridge.provisioning.bridge_manager import manager


def test_each_path_can_be_asked_about_by_a_browser() -> None:
    """Before it asks for it."""
    asked = {route.path for route in ROUTES if route.method == "OPTIONS"}
    assert asked == {route.path for route in ROUTES if route.method != "OPTIONS"}
    assert all(path.startswith(f"{V3}/") for path in asked)


async def test_a_browser_may_ask(play: Stage) -> None:
    """Without a token, which it does not show then."""
    async with manager(play) as one:
        said = await one.ask("OPTIONS", "whoami", token=None)
        assert (said.status, said.headers["Access-Control-Allow-Origin"]) == (204, "*")
        assert "Authorization" in said.headers["Access-Control-Allow-Headers"]
        assert (await one.ask("GET", "whoami")).headers["Access-Control-Allow-Origin"] == "*"
