"""Patterns with stars."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.star_pattern import fits


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
def test_a_star_is_any_characters(pattern: str, good: list[str], bad: list[str]) -> None:
    """Or none; the rest has to be as it is, from the beginning to the end."""
    assert [text for text in good if not fits(pattern, text)] == []
    assert [text for text in bad if fits(pattern, text)] == []


@pytest.mark.parametrize("sign", ["?", ".", "[a-z]", "\\", "+", "{1}", "^", "$", "%", "_"])
def test_nothing_else_is_a_sign(sign: str) -> None:
    """An office may be called so, and no other is meant."""
    assert fits(sign, sign)
    assert fits(f"{sign}*", f"{sign}x")
    assert not fits(sign, "a")


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_it_is_what_a_regular_expression_would_say(pattern: str, text: str) -> None:
    """Without the time that one may take."""
    said = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL)
    assert fits(pattern, text) is (said is not None)


def test_no_pattern_takes_long() -> None:
    """A regular expression of so many stars would not come to an end."""
    assert not fits("*a" * 100 + "*b", "a" * 100_000)
