"""The settings of a homeserver."""

from ipaddress import ip_address
from pathlib import Path

from federation.homeserver import HomeserverSettings


def test_closed_by_default() -> None:
    """Without configuration no server may be contacted, and none can direct requests into the node's own
    network."""
    settings = HomeserverSettings("kitchen.local", "1", Path("media"))
    assert not settings.policy.admits("matrix.org")
    assert any(ip_address("192.168.1.1") in network for network in settings.blocked)
