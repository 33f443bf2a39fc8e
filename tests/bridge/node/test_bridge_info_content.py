"""What a room of agents says of the bridge that it is."""

from bridge.node.portals import PROTOCOL, TYPES, content, state_key


def test_each_portal_has_a_key_of_its_own() -> None:
    """Also where names have in them what separates them."""
    assert state_key("kitchen.local", "default") == "io.palaver://agents/kitchen.local/default"
    keys = {state_key("a/b", "c"), state_key("a", "b/c"), state_key("a", "b%2Fc"), state_key("a:7676", "c")}
    assert len(keys) == 4


def test_clients_find_what_they_show() -> None:
    """Who bridges, which protocol, which network, which room of it; a picture only where there is one."""
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
