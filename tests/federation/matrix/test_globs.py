"""Glob patterns."""

import fnmatch
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from federation.matrix.globs import Glob, matches_glob


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
    """`*` for any number of characters, `?` for exactly one, all others for themselves."""
    assert Glob(pattern).matches(text) is expected


@given(st.text("ab*?.", max_size=12), st.text("ab.", max_size=12))
@example("*a*b", "aab")
@example("a*a", "a")
def test_globs_equal_regular_expressions(pattern: str, text: str) -> None:
    assert Glob(pattern).matches(text) == (re.fullmatch(fnmatch.translate(pattern), text) is not None)


@pytest.mark.parametrize(
    "pattern", ["*a" * 5_000 + "b", "a*" * 5_000 + "?", "*" * 50_000 + "b", "?" * 20_000, "*?a" * 3_000 + "b"]
)
def test_no_pattern_is_slow(pattern: str) -> None:
    """A backtracking regular expression would practically never end, so the test passes if it ends."""
    assert not Glob(pattern).matches("a" * 230)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("kitchen", ["kitchen"], ["", "Kitchen", "kitchen ", "kitchens", "a kitchen", "kitchen\n"]),
        ("*", ["", "a", "a\nb", "office@node"], []),
        ("team-*", ["team-", "team-a", "team-a@there.test"], ["team", "Team-a", "a team-a"]),
        ("*@there.test", ["@there.test", "a@there.test"], ["a@there.test.evil", "there.test"]),
        ("a*a", ["aa", "aba"], ["a", ""]),
        ("a**b", ["ab", "a*b"], ["a", "b"]),
        ("*ab*ab*", ["abab", "xabyabz"], ["ab", "aab", "ba"]),
        ("ab*b", ["abb", "abab"], ["ab"]),
        ("", [""], ["a"]),
    ],
)
def test_a_star_matches_any_characters(pattern: str, good: list[str], bad: list[str]) -> None:
    """Or none; the rest must match exactly."""
    assert [text for text in good if not matches_glob(pattern, text)] == []
    assert [text for text in bad if matches_glob(pattern, text)] == []


@pytest.mark.parametrize("sign", ["?", ".", "[a-z]", "\\", "+", "{1}", "^", "$", "%", "_"])
def test_other_characters_match_themselves(sign: str) -> None:
    """They may occur in the names of offices."""
    assert matches_glob(sign, sign)
    assert matches_glob(f"{sign}*", f"{sign}x")
    assert not matches_glob(sign, "a")


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_stars_equal_a_regular_expression(pattern: str, text: str) -> None:
    match = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)
    assert matches_glob(pattern, text) is (match is not None)


def test_no_pattern_of_stars_is_slow() -> None:
    """A backtracking regular expression would practically never end."""
    assert not matches_glob("*a" * 100 + "*b", "a" * 100_000)
