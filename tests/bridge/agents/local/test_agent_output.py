"""What is kept of a process's output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.local.output import CapturedOutput, OutputCapture


def kept(most: int, *pieces: bytes) -> CapturedOutput:
    output = OutputCapture(most)
    for piece in pieces:
        output.add(piece)
    return output.captured()


def test_what_fits_is_kept_as_it_is() -> None:
    """Up to the last byte, in however many pieces it came."""
    assert kept(8, b"12345678") == CapturedOutput("12345678", 8, 0)
    assert kept(8, b"1", b"", b"234567", b"8") == CapturedOutput("12345678", 8, 0)
    assert kept(1, b"") == CapturedOutput("", 0, 0)


def test_of_more_the_beginning_and_the_end_are_kept() -> None:
    """And what is missing in between is said, in bytes."""
    assert kept(8, b"aaaa", b"x" * 1000, b"zzzz") == CapturedOutput(
        "aaaa\n[… 1000 bytes left out …]\nzzzz", 1008, 1000
    )
    assert kept(1, b"abc") == CapturedOutput("a\n[… 2 bytes left out …]\n", 3, 2)


def test_invalid_utf_8_is_replaced() -> None:
    """What a process writes need not be text."""
    assert kept(100, b"a\xff\xfeb\xe2\x82").text == "a\ufffd\ufffdb\ufffd"


@pytest.mark.parametrize("character", ["é", "€", "𝄞"])
def test_a_cut_falls_between_characters(character: str) -> None:
    """Half a character would be shown as one that nobody wrote."""
    for most in range(1, 40):
        text = kept(most, (character * 1000).encode()).text
        assert "\ufffd" not in text


@given(st.lists(st.binary(max_size=50)), st.integers(1, 60))
def test_no_more_is_kept_than_wanted(pieces: list[bytes], most: int) -> None:
    """Whatever the pieces: bounded, and together with what is left out it is all that was written."""
    output = OutputCapture(most)
    for piece in pieces:
        output.add(piece)
        assert sum(map(len, output._tail)) <= most + 50
    found = output.captured()
    assert found.total == sum(map(len, pieces))
    if found.total <= most:
        assert found == CapturedOutput(b"".join(pieces).decode("utf-8", "replace"), found.total, 0)
    else:
        # At each cut a character may be missing of which three bytes are here.
        assert 0 < found.total - most <= found.left_out <= found.total - most + 6
