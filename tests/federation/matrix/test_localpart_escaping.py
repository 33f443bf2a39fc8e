"""Any text as part of a localpart, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.identifiers import escape, is_current_user_id, unescape

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "name"),
    [("a.b_c/d+e-0", "a.b_c/d+e-0"), ("A=@", "=41=3d=40"), ("é", "=c3=a9"), ("\0", "=00"), ("", "")],
)
def test_what_is_not_allowed_is_written_byte_for_byte(text: str, name: str) -> None:
    """Everything that may stand in the name of a new user stays, but for `=`."""
    assert escape(text) == name


@given(TEXTS)
def test_every_text_comes_back(text: str) -> None:
    """And may stand in the name of a new user."""
    assert is_current_user_id(f"@{escape(text)}:a")
    assert unescape(escape(text)) == text


@pytest.mark.parametrize("name", ["", "A", "=", "=4", "=4G", "=61", "=c3", "é", "a b", "=3D"])
def test_what_is_never_written_is_not_read(name: str) -> None:
    """Otherwise two names would stand for one text."""
    assert unescape(name) is None
