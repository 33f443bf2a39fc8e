"""What a homeserver is told when it starts."""

from ipaddress import ip_address
from pathlib import Path

from federation.homeserver import HomeserverSettings


def test_closed_by_default() -> None:
    """Who configures nothing speaks with nobody, and no stranger can lead it into its own network."""
    settings = HomeserverSettings("kitchen.local", "1", Path("media"))
    assert not settings.policy.admits("matrix.org")
    assert any(ip_address("192.168.1.1") in network for network in settings.blocked)
