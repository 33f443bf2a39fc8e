"""Text is cleaned before it is shown."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.texts.text import beginning, clean, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("a\0b\x07c\x9b1m", "abc1m"),
        ("evil\u202etxt.exe", "eviltxt.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("tag\U000e0041\U000e007f", "tag"),
        ("half \ud800", "half "),
        ("👩\u200d🚒 ❤\ufe0f نام\u200cها", "👩\u200d🚒 ❤\ufe0f نام\u200cها"),
    ],
)
def test_invisible_characters_are_removed(text: str, shown: str) -> None:
    """Joiners of letters and emoji are kept."""
    assert clean(text) == shown


@given(st.text(st.characters()))
def test_no_control_characters_remain(text: str) -> None:
    """Cleaning again changes nothing."""
    shown = clean(text)
    assert all(one in "\t\n" or unicodedata.category(one) not in {"Cc", "Cs"} for one in shown)
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert clean(shown) == shown
    shown.encode()


def test_one_line_joins_and_shortens() -> None:
    """An ellipsis marks the cut."""
    assert one_line(" a\n\n b\t", 10) == "a b"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("x" * 10**6, 3) == "xx…"


@pytest.mark.parametrize(
    ("text", "lines", "characters", "shown"),
    [
        ("a\nb\nc", 5, 100, "a\nb\nc"),
        ("a\nb\nc", 2, 100, "a\nb"),
        ("aaa\nbbb\nccc", 5, 8, "aaa\nbbb"),
        ("aaa\nbbb", 5, 7, "aaa\nbbb"),
        ("aaa\nbbbb", 5, 7, "aaa"),
        ("aaaaaaa\nb", 5, 4, "aaaa"),
        ("", 5, 4, ""),
    ],
)
def test_the_beginning_has_whole_lines(text: str, lines: int, characters: int, shown: str) -> None:
    """Unless the first line is too long."""
    assert beginning(text, lines, characters) == shown


@given(st.text(), st.integers(1, 10), st.integers(1, 50))
def test_the_beginning_is_within_its_limits(text: str, lines: int, characters: int) -> None:
    """It is a prefix of the text."""
    shown = beginning(text, lines, characters)
    assert text.startswith(shown)
    assert len(shown) <= characters
    assert shown.count("\n") < lines
