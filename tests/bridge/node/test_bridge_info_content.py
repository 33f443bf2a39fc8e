"""The contents of bridge information."""

from bridge.node.portals import PROTOCOL, TYPES, content, state_key


def test_state_keys_are_unique() -> None:
    """Also for names that contain the separator."""
    assert state_key("kitchen.local", "default") == "io.palaver://agents/kitchen.local/default"
    keys = {state_key("a/b", "c"), state_key("a", "b/c"), state_key("a", "b%2Fc"), state_key("a:7676", "c")}
    assert len(keys) == 4


def test_content() -> None:
    """Bridge, protocol, network and channel; an avatar only if there is one."""
    said = content("kitchen.local", "team-a", "@_agent_palaver:their.server")
    assert said == {
        "bridgebot": "@_agent_palaver:their.server",
        "creator": "@_agent_palaver:their.server",
        "protocol": {"id": PROTOCOL, "displayname": "Palaver"},
        "network": {"id": "kitchen.local", "displayname": "Agents of kitchen.local"},
        "channel": {"id": "team-a", "displayname": "team-a"},
    }
    pictured = content("kitchen.local", "team-a", "@p:their.server", avatar_url="mxc://their.server/a")
    assert pictured["protocol"]["avatar_url"] == "mxc://their.server/a"
    assert TYPES == ("m.bridge", "uk.half-shot.bridge")
