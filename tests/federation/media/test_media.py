"""The addresses of media."""

import pytest

from federation.media.media import Mxc, is_media_id, parse_mxc


@pytest.mark.parametrize("text", ["mxc://example.org/abc", "mxc://localhost:8448/A-z_09", "mxc://[::1]:1/x"])
def test_an_address_is_read_and_written(text: str) -> None:
    """Both ways the same."""
    mxc = parse_mxc(text)
    assert mxc is not None
    assert str(mxc) == text


def test_an_address_has_two_parts() -> None:
    """The server and the id."""
    assert parse_mxc("mxc://example.org:1/abc") == Mxc("example.org:1", "abc")


@pytest.mark.parametrize(
    "text",
    [
        "", "mxc://", "mxc:///abc", "mxc://example.org", "mxc://example.org/", "https://example.org/abc",
        "mxc://example.org/a/b", "mxc://example.org/../x", "mxc://exa mple/abc", "mxc://example.org/a%2Fb",
        "mxc://example.org/abc\n", "mxc://example.org/a\0", "mxc://example.org/ä", "MXC://example.org/abc",
        "mxc://../abc", "mxc://example.org/" + "a" * 256, "example.org/abc",
    ],
)  # fmt: skip
def test_all_else_is_no_address(text: str) -> None:
    """Nothing that could climb out of a directory or split a header."""
    assert parse_mxc(text) is None


def test_ids_have_few_characters() -> None:
    """ "MUST only contain the characters A-Z, a-z, 0-9, _ and -" """
    assert is_media_id("Az09_-")
    assert not is_media_id("a.b")
    assert not is_media_id("")
