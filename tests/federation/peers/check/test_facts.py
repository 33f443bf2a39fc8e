"""What was seen."""

from dataclasses import replace

from federation.client.errors import PeerMalformed
from federation.peers.check.facts import Asked
from tests.federation.peers.check.seen import PLACE


def test_a_place_answers_when_it_gave_the_servers_keys() -> None:
    """Nothing less shows that a Matrix server is there."""
    assert PLACE.answers_as("peer.test")
    assert not PLACE.answers_as("other.test")
    assert not replace(PLACE, keys=None).answers_as("peer.test")
    nonsense = Asked(PeerMalformed("peer.test", "answered nonsense"))
    assert not replace(PLACE, keys=nonsense).answers_as("peer.test")


def test_a_place_is_written_as_in_a_url() -> None:
    """An IPv6 address stands in brackets."""
    assert PLACE.name == "192.0.2.1:7676"
    assert replace(PLACE, address="2001:db8::1").name == "[2001:db8::1]:7676"
