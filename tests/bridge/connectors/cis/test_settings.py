"""The settings of the connector."""

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol.rooms import BroadcastRoom, FederationRoom
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess, PeerProfile

KITCHEN = Peer("kitchen", namespaces=frozenset({"beta", "default"}))
OLD = Peer("old", PeerProfile.CIS_1_1)
BAD = Peer("bad", trusted=False)
SETTINGS = CisSettings(
    "living", {peer.node_id: PeerAccess(peer) for peer in (KITCHEN, OLD, BAD)}, namespaces=("default", "alpha", "beta")
)


def test_own_rooms() -> None:
    """A broadcast room, and a room for each namespace."""
    assert SETTINGS.own_rooms() == (
        BroadcastRoom("living"),
        FederationRoom("default", "living"),
        FederationRoom("alpha", "living"),
        FederationRoom("beta", "living"),
    )
    assert SETTINGS.node_user == "@palaver:living"
    assert SETTINGS.is_own(AgentAddress("a", "living"))
    assert not SETTINGS.is_own(AgentAddress("a", "kitchen"))


def test_rooms_of_a_peer_are_those_of_the_common_namespaces() -> None:
    """ "a peer lists the namespaces it may use"; in this node's order, so that the main one comes first."""
    assert SETTINGS.common_namespaces(KITCHEN) == ("default", "beta")
    assert SETTINGS.rooms_of(KITCHEN) == (
        BroadcastRoom("kitchen"),
        FederationRoom("default", "kitchen"),
        FederationRoom("beta", "kitchen"),
    )
    assert SETTINGS.may_use(KITCHEN, FederationRoom("beta", "living"))
    assert not SETTINGS.may_use(KITCHEN, FederationRoom("alpha", "living"))
    assert SETTINGS.may_use(KITCHEN, SETTINGS.broadcast_room)


def test_an_agent_is_announced_to_all_or_to_its_namespaces() -> None:
    """An agent in the main namespace, or in no existing one, is announced to all."""
    to_all = (SETTINGS.broadcast_room,)
    for namespaces in ([], ["default"], ["alpha", "default"], ["unheard-of"]):
        assert SETTINGS.announced_in(namespaces) == to_all
    assert SETTINGS.announced_in(["beta", "alpha", "x"]) == (
        FederationRoom("alpha", "living"),
        FederationRoom("beta", "living"),
    )


def test_only_trusted_peers_have_access() -> None:
    """None has if federation is off; the configuration still lists them."""
    assert SETTINGS.homeservers() == (KITCHEN,)
    assert [one.peer for one in SETTINGS.published()] == [OLD]
    assert SETTINGS.access("bad") is None
    assert SETTINGS.peer("bad") is BAD
    assert SETTINGS.access("nobody") is SETTINGS.peer("nobody") is None
    assert SETTINGS.access("old") == PeerAccess(OLD)
    alone = CisSettings("living", SETTINGS.peers, federate=False)
    assert alone.homeservers() == alone.published() == ()
    assert alone.access("kitchen") is None
