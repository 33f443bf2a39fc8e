"""The identification of the peer that sent a single event."""

from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest

from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.published import Source, identify_peer
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess, PeerProfile

A = Peer("a.test", PeerProfile.CIS_1_1)
B = Peer("b.test", PeerProfile.CIS_1_1, trusted=False)
C = Peer("c.test", PeerProfile.CIS_1_1)
M = Peer("m.test")
SHARED = (ip_network("10.0.0.0/8"),)
SETTINGS = CisSettings(
    "here",
    {
        "a.test": PeerAccess(A, networks=SHARED),
        "b.test": PeerAccess(B, networks=SHARED),
        "c.test": PeerAccess(C, networks=(ip_network("192.168.1.1/32"),)),
        "m.test": PeerAccess(M, networks=SHARED),
    },
)
EVENT = Envelope("$1", "!r:here", "@w:a.test:7676", "t", {}, 1)


def source(address: str | None = None, *shown: str, header: str | None = None) -> Source:
    return Source(None if address is None else ip_address(address), frozenset(shown), header)


@pytest.mark.parametrize(
    ("where", "known"),
    [
        (source("10.1.2.3"), True),
        (source("192.168.1.1"), True),
        (source("192.168.1.2"), False),
        (source("::1"), False),
        (source(), False),
        (source(None, "c.test"), True),
        (source(None, "m.test"), False),
    ],
)
def test_whether_a_connection_can_belong_to_a_peer(where: Source, known: bool) -> None:
    """Decided by its network and certificate, not by the event."""
    assert where.may_be_peer(SETTINGS) is known


def test_a_single_candidate_is_the_sender() -> None:
    """Whatever names the event has: they are checked later."""
    assert identify_peer(EVENT, source("192.168.1.1"), SETTINGS) is C
    assert identify_peer(EVENT, source("1.2.3.4", "c.test"), SETTINGS) is C


def test_the_event_decides_between_peers_on_one_network() -> None:
    """In the order of published nodes: `origin`, the sender's domain, the header. An event that names none of
    the peers has no sender."""
    shared = source("10.0.0.1", header="b.test")
    assert identify_peer(EVENT, shared, SETTINGS) is A
    assert identify_peer(replace(EVENT, origin="b.test"), shared, SETTINGS) is B
    assert identify_peer(replace(EVENT, sender="@w:elsewhere"), shared, SETTINGS) is B
    assert identify_peer(replace(EVENT, sender="@w:m.test"), source("10.0.0.1"), SETTINGS) is None
