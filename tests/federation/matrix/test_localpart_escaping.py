"""Escaping any text as part of a localpart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.identifiers import escape, is_current_user_id, unescape

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "name"), [("a.b_c/d+e-0", "a.b_c/d+e-0"), ("A=@", "=41=3d=40"), ("é", "=c3=a9"), ("\0", "=00"), ("", "")]
)
def test_other_characters_are_escaped_by_byte(text: str, name: str) -> None:
    """All characters that a new user id may contain stay, except `=`."""
    assert escape(text) == name


@given(TEXTS)
def test_every_text_round_trips(text: str) -> None:
    """And the escaped form is valid in a new user id."""
    assert is_current_user_id(f"@{escape(text)}:a")
    assert unescape(escape(text)) == text


@pytest.mark.parametrize("name", ["", "A", "=", "=4", "=4G", "=61", "=c3", "é", "a b", "=3D"])
def test_other_forms_are_not_unescaped(name: str) -> None:
    """Otherwise two names would mean the same text."""
    assert unescape(name) is None
