"""What a bridge manager receives about the bridge."""

from appservice.people.double_puppets import PuppetLogin
from bridge.provisioning.about import CAPABILITIES, Bridge, whoami

BRIDGE = Bridge(
    homeserver="their.server", node_user="@_agent_palaver:their.server", prefix="!agents", accepts_tokens=True
)


def test_whoami() -> None:
    """All required fields."""
    said = whoami(BRIDGE, None)
    assert said.keys() == {
        "network", "login_flows", "homeserver", "bridge_bot", "command_prefix", "logins",
    }  # fmt: skip
    assert said["network"].keys() == {
        "displayname", "network_url", "network_icon", "network_id", "beeper_bridge_type",
    }  # fmt: skip
    assert (said["homeserver"], said["bridge_bot"]) == ("their.server", "@_agent_palaver:their.server")
    assert [flow["id"] for flow in said["login_flows"]] == ["access_token"]
    assert said["logins"] == []


def test_login_state() -> None:
    """Including a refused token."""
    (good,) = whoami(BRIDGE, PuppetLogin("1", "@alice:their.server", 5))["logins"]
    assert (good["id"], good["name"], good["state"]) == (
        "1", "@alice:their.server", {"state_event": "CONNECTED", "timestamp": 5},
    )  # fmt: skip
    (bad,) = whoami(BRIDGE, PuppetLogin("1", "@alice:their.server", 5, 9))["logins"]
    assert (bad["state"]["state_event"], bad["state"]["timestamp"]) == ("BAD_CREDENTIALS", 9)
    assert "log in again" in bad["state"]["message"]


def test_capabilities() -> None:
    """Each has an endpoint."""
    can = {name for name, value in CAPABILITIES["resolve_identifier"].items() if value}
    assert can == {"create_dm", "lookup_username", "contact_list", "search"}
    assert CAPABILITIES["group_creation"] == {}
