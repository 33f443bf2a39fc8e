"""The requests that create a node's rooms."""

from bridge.connectors.cis.protocol.rooms import BroadcastRoom, FederationRoom
from bridge.connectors.cis.service.own_rooms import room_request, server_acl
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess
from federation.rooms.creation import plan

SETTINGS = CisSettings("living.test", namespaces=("default", "alpha"))


def test_room_ids_match_the_specification() -> None:
    """In room version 11, in which a server chooses its room ids."""
    for room, name in [
        (FederationRoom("alpha", "living.test"), "agent-federation-alpha:living.test"),
        (BroadcastRoom("living.test"), "agent-broadcast:living.test"),
    ]:
        made = plan(room_request(room, SETTINGS), "living.test", opaque="x")
        assert (made.room_id, made.alias, made.version.id) == (f"!{name}", f"#{name}", "11")
        assert made.events[0].sender == "@palaver:living.test"


def test_power_levels() -> None:
    """Only the owner sets the agents; every member may invite."""
    levels = room_request(SETTINGS.broadcast_room, SETTINGS).power_levels
    assert levels == {"events_default": 0, "state_default": 100, "invite": 0}


def test_the_join_rule_is_configured() -> None:
    """`public` or `invite`."""
    for rule, preset in (("public", "public_chat"), ("invite", "private_chat")):
        settings = CisSettings("living.test", join_rule=rule)  # type: ignore[arg-type]
        assert room_request(settings.broadcast_room, settings).preset == preset


def test_rooms_that_do_not_federate() -> None:
    """Neither when they are created nor later."""
    alone = CisSettings("living.test", federate=False)
    assert room_request(alone.broadcast_room, alone).federate is False
    assert server_acl(alone.broadcast_room, alone)["allow"] == ["living.test"]


def test_the_acl_excludes_nodes_that_may_not_use_a_room() -> None:
    """The join rule decides for all others. A node on the host of this node, or of a node that may use the
    room, cannot be excluded."""
    peers = {
        "a.test:7676": Peer("a.test:7676", trusted=False),
        "b.test": Peer("b.test", namespaces=frozenset({"alpha"})),
        "living.test:1": Peer("living.test:1", trusted=False),
        "c.test": Peer("c.test", namespaces=frozenset({"default", "alpha"})),
        "c.test:1": Peer("c.test:1", trusted=False),
    }
    settings = CisSettings(
        "living.test", {name: PeerAccess(peer) for name, peer in peers.items()}, ("default", "alpha")
    )
    assert server_acl(settings.broadcast_room, settings) == {
        "allow": ["*"],
        "deny": ["a.test"],
        "allow_ip_literals": True,
    }
    assert server_acl(FederationRoom("default", "living.test"), settings)["deny"] == ["a.test", "b.test"]
    assert server_acl(FederationRoom("alpha", "living.test"), settings)["deny"] == ["a.test"]
