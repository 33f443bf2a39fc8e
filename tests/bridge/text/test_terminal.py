"""Text of remote users on a terminal."""

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
        ("👩\u200d🍳 👨🏽\u200d🚀 \u200da\u200db\u200d", "👩\u200d🍳 👨🏽\u200d🚀 \\u{200d}a\\u{200d}b\\u{200d}"),
        ("e\u0301", "e\u0301"),
        ("\ud800", "\\u{d800}"),
    ],
)
def test_invisible_characters_are_shown_as_codes(text: str, shown: str) -> None:
    """Escape sequences, line ends, direction changes and invisible characters. Visible text is unchanged."""
    assert harmless(text) == shown


@given(st.text(alphabet=st.characters()))
def test_any_text_is_safe_on_a_terminal(text: str) -> None:
    """The result is one line without control characters, and can be encoded."""
    shown = harmless(text)
    assert not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in shown)
    assert all(character == "\u200d" for character in shown if unicodedata.category(character) == "Cf")
    shown.encode()


def test_a_long_text_is_cut() -> None:
    """An ellipsis marks the cut."""
    assert harmless("abcdef", 3) == "abc…"
    assert harmless("abc", 3) == "abc"


def test_line_feeds_are_kept() -> None:
    """Pretty-printed JSON has line feeds, and JSON does not escape all invisible characters."""
    assert harmless_lines('{\n "a": "\u202e"\n}') == '{\n "a": "\\u{202e}"\n}'
    assert harmless_lines("x" * 5_000) == "x" * 5_000
