"""Text of others on a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.text.terminal import harmless, harmless_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Küche 厨房 🍳", "Küche 厨房 🍳"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("a\r\nb\tc\x00", "a\\x0d\\x0ab\\x09c\\x00"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202elive\u2066", "\\u{202e}live\\u{2066}"),
        ("in\u200bvisible\ufeff", "in\\u{200b}visible\\u{feff}"),
        ("two\u2028lines", "two\\u{2028}lines"),
        ("\U000e0041\ue000", "\\u{e0041}\\u{e000}"),
        (
            "👩\u200d🍳 👨🏽\u200d🚀 \u200da\u200db\u200d",
            "👩\u200d🍳 👨🏽\u200d🚀 \\u{200d}a\\u{200d}b\\u{200d}",
        ),
        ("e\u0301", "e\u0301"),
        ("\ud800", "\\u{d800}"),
    ],
)
def test_what_is_not_seen_is_shown_by_its_number(text: str, shown: str) -> None:
    """Escape sequences, line ends, turned direction, nothing; what people write stays as it is."""
    assert harmless(text) == shown


@given(st.text(alphabet=st.characters()))
def test_no_text_reaches_the_terminal_itself(text: str) -> None:
    """Whatever it is: one line, no control character, and bytes that can be written."""
    shown = harmless(text)
    assert not any(unicodedata.category(one) in {"Cc", "Cs", "Zl", "Zp"} for one in shown)
    assert all(one == "\u200d" for one in shown if unicodedata.category(one) == "Cf")
    shown.encode()


def test_a_long_text_is_cut() -> None:
    """And says that it was."""
    assert harmless("abcdef", 3) == "abc…"
    assert harmless("abc", 3) == "abc"


def test_lines_stay_lines() -> None:
    """Pretty printed JSON has its own; what JSON itself has not escaped is."""
    assert harmless_lines('{\n "a": "\u202e"\n}') == '{\n "a": "\\u{202e}"\n}'
    assert harmless_lines("x" * 5_000) == "x" * 5_000
