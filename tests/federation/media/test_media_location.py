"""The `Location` of media of other servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.networks import NOT_PUBLIC, is_within, read_address
from federation.media.location import read_location


@pytest.mark.parametrize(
    "text", ["https://cdn.example.org/a/b?sig=%2Fx", "https://cdn.example.org:8443/x", "https://a.xn--p1ai/"]
)
def test_an_https_url_is_accepted(text: str) -> None:
    """Unchanged, because it may be signed."""
    assert str(read_location(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "/a/b", "//cdn.example.org/a", "http://cdn.example.org/a", "file:///etc/passwd", "ftp://a.example/",
        "https:///a", "https://user@cdn.example.org/", "https://user:secret@cdn.example.org/",
        "https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/",
        "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://10.0.0.1./", "https://1.2.3.4:443/",
        "https://cdn.example.org:99999/", "https://cdn.example.org/\r\nX: y", "https://cdn.example.org/ü",
        "https://./", "javascript:alert(1)", "https://cdn.example.org/" + "a" * 9000,
    ],
)  # fmt: skip
def test_other_locations_are_refused(text: str) -> None:
    """IP addresses, other schemes, credentials and local paths."""
    assert read_location(text) is None


@given(st.text())
def test_any_text_is_accepted_or_refused(text: str) -> None:
    """Without an exception."""
    read_location(f"https://{text}")
    read_location(text)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "255.255.255.255", "224.0.0.1", "::1", "::", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "::7f00:1",
        "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::", "ff02::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    """Loopback, private networks, cloud metadata services, and IPv6 addresses that embed them."""
    assert is_within(read_address(address), NOT_PUBLIC)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"])
def test_public_addresses(address: str) -> None:
    """Those of CDNs."""
    assert not is_within(read_address(address), NOT_PUBLIC)
