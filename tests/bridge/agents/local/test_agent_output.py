"""The captured output of a process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.local.output import CapturedOutput, OutputCapture


def kept(most: int, *pieces: bytes) -> CapturedOutput:
    output = OutputCapture(most)
    for piece in pieces:
        output.add(piece)
    return output.captured()


def test_output_within_the_limit_is_unchanged() -> None:
    """To the byte, in any number of pieces."""
    assert kept(8, b"12345678") == CapturedOutput("12345678", 8, 0)
    assert kept(8, b"1", b"", b"234567", b"8") == CapturedOutput("12345678", 8, 0)
    assert kept(1, b"") == CapturedOutput("", 0, 0)


def test_of_longer_output_the_beginning_and_the_end_are_captured() -> None:
    """With the number of missing bytes between them."""
    assert kept(8, b"aaaa", b"x" * 1000, b"zzzz") == CapturedOutput("aaaa\n[… 1000 bytes left out …]\nzzzz", 1008, 1000)
    assert kept(1, b"abc") == CapturedOutput("a\n[… 2 bytes left out …]\n", 3, 2)


def test_invalid_utf_8_is_replaced() -> None:
    """A process may write anything."""
    assert kept(100, b"a\xff\xfeb\xe2\x82").text == "a\ufffd\ufffdb\ufffd"


@pytest.mark.parametrize("character", ["é", "€", "𝄞"])
def test_a_cut_falls_between_characters(character: str) -> None:
    """Never within one."""
    for most in range(1, 40):
        text = kept(most, (character * 1000).encode()).text
        assert "\ufffd" not in text


@given(st.lists(st.binary(max_size=50)), st.integers(1, 60))
def test_the_capture_is_bounded(pieces: list[bytes], most: int) -> None:
    """For any pieces; captured and missing bytes add up to what was written."""
    output = OutputCapture(most)
    for piece in pieces:
        output.add(piece)
        assert sum(map(len, output._tail)) <= most + 50
    found = output.captured()
    assert found.total == sum(map(len, pieces))
    if found.total <= most:
        assert found == CapturedOutput(b"".join(pieces).decode("utf-8", "replace"), found.total, 0)
    else:
        # At each cut up to three bytes of a character may be dropped.
        assert 0 < found.total - most <= found.left_out <= found.total - most + 6
