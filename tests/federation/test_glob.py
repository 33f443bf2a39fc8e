"""Patterns of server names."""

import fnmatch
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federation.glob import Glob


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a.example", "a.example", True),
        ("a.example", "axexample", False),
        ("a.example", "a.example.org", False),
        ("a.example", "aa.example", False),
        ("*", "", True),
        ("*", "anything", True),
        ("", "", True),
        ("", "a", False),
        ("?", "a", True),
        ("?", "", False),
        ("?", "ab", False),
        ("a?c", "abc", True),
        ("*.example", "a.example", True),
        ("*.example", "example", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXcYb", False),
        ("*b*", "abc", True),
        ("a**c", "abc", True),
        ("*ab?", "xabab1", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a.+", "a.+", True),
        ("a.+", "abb", False),
        ("*\n", "x\n", True),
    ],
)
def test_globs(pattern: str, text: str, expected: bool) -> None:
    """`*` for any number of characters, `?` for exactly one, everything else for itself."""
    assert Glob(pattern).matches(text) is expected


@given(st.text("ab*?.", max_size=12), st.text("ab.", max_size=12))
@example("*a*b", "aab")
@example("a*a", "a")
def test_globs_are_what_regular_expressions_would_make_of_them(pattern: str, text: str) -> None:
    """The same answer as the standard library's, which tries everything out."""
    assert Glob(pattern).matches(text) == (re.fullmatch(fnmatch.translate(pattern), text) is not None)


@pytest.mark.parametrize(
    "pattern", ["*a" * 5_000 + "b", "a*" * 5_000 + "?", "*" * 50_000 + "b", "?" * 20_000, "*?a" * 3_000 + "b"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """As a regular expression, the first of these would not be done before the sun is cold: a test that ends
    has passed."""
    assert not Glob(pattern).matches("a" * 230)
