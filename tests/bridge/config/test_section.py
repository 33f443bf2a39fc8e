"""Values that the configuration checks."""

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.config.section import HostPort, Network


@pytest.mark.parametrize("good", ["a:1", "192.168.1.20:7676", "[fd00::20]:7676", "kitchen.local:65535"])
def test_an_address_is_a_host_and_a_port(good: str) -> None:
    """IPv6 in brackets, as everywhere."""
    assert TypeAdapter(HostPort).validate_python(good) == good


@pytest.mark.parametrize(
    "bad", ["", "a", "a:", ":1", "a:0", "a:65536", "a:b", "fd00::20", "u@a:1", "a b:1", "a:1/x", "a:1\n"]
)
def test_what_is_no_address_is_refused(bad: str) -> None:
    """With the form that is wanted."""
    with pytest.raises(ValidationError, match=r"host:port|port that"):
        TypeAdapter(HostPort).validate_python(bad)


def test_a_network_has_its_prefix_right() -> None:
    """An address inside a network is not a network: which of the two was meant?"""
    with pytest.raises(ValidationError, match="prefix"):
        TypeAdapter(Network).validate_python("192.168.1.20/24")
