"""Types of validated values."""

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.config.section import HostPort, Network


@pytest.mark.parametrize("good", ["a:1", "192.168.1.20:7676", "[fd00::20]:7676", "kitchen.local:65535"])
def test_an_address_is_a_host_and_a_port(good: str) -> None:
    """IPv6 addresses are in brackets."""
    assert TypeAdapter(HostPort).validate_python(good) == good


@pytest.mark.parametrize(
    "bad", ["", "a", "a:", ":1", "a:0", "a:65536", "a:b", "fd00::20", "u@a:1", "a b:1", "a:1/x", "a:1\n"]
)
def test_an_invalid_address_is_refused(bad: str) -> None:
    """The error shows the expected format."""
    with pytest.raises(ValidationError, match=r"host:port|invalid port"):
        TypeAdapter(HostPort).validate_python(bad)


def test_a_network_must_have_no_host_bits() -> None:
    """192.168.1.20/24 could be meant as an address or as a network."""
    with pytest.raises(ValidationError, match="prefix"):
        TypeAdapter(Network).validate_python("192.168.1.20/24")
