"""Where another server says that its media is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.networks import NOT_PUBLIC, is_within, read_address
from federation.media.location import read_location


@pytest.mark.parametrize(
    "text", ["https://cdn.example.org/a/b?sig=%2Fx", "https://cdn.example.org:8443/x", "https://a.xn--p1ai/"]
)
def test_an_address_of_the_web_is_taken(text: str) -> None:
    """As it is: what is signed in it must not be written anew."""
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
def test_all_else_is_refused(text: str) -> None:
    """No address in place of a name, nothing that is not TLS, no credentials, no path of this machine."""
    assert read_location(text) is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """Nothing is raised."""
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
def test_an_address_that_is_not_public(address: str) -> None:
    """Loopback, private networks, a cloud's own services, and IPv6 addresses that lead to them."""
    assert is_within(read_address(address), NOT_PUBLIC)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450::1"])
def test_an_address_that_is_public(address: str) -> None:
    """Where CDNs are."""
    assert not is_within(read_address(address), NOT_PUBLIC)
