"""Facts and findings of a peer check."""

from dataclasses import replace

from federation.client.errors import PeerMalformed
from federation.peers.check.facts import ProbeResponse, Verdict, fault, fine, warning, worst
from tests.federation.peers.check.healthy_server import PLACE


def test_an_address_answers_if_it_returns_the_servers_keys() -> None:
    """Only that shows that the Matrix server is there."""
    assert PLACE.answers_as("peer.test")
    assert not PLACE.answers_as("other.test")
    assert not replace(PLACE, keys=None).answers_as("peer.test")
    nonsense = ProbeResponse(PeerMalformed("peer.test", "answered nonsense"))
    assert not replace(PLACE, keys=nonsense).answers_as("peer.test")


def test_an_address_is_written_as_in_a_url() -> None:
    """An IPv6 address is in brackets."""
    assert PLACE.name == "192.0.2.1:7676"
    assert replace(PLACE, address="2001:db8::1").name == "[2001:db8::1]:7676"


def test_the_worst_verdict_counts() -> None:
    """A fault is worse than a warning."""
    good, odd, bad = fine("a", "b"), warning("a", "b", "c"), fault("a", "b", "c")
    assert worst([]) is worst([good]) is Verdict.FINE
    assert worst([odd, good]) is Verdict.WARNING
    assert worst([odd, bad, good]) is Verdict.FAULT
