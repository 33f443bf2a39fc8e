"""Spans of time as they are written."""

import pytest

from bridge.text.times import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("90s", 90), ("15m", 900), ("2h", 7_200), ("30d", 30 * 86_400)]
)
def test_a_number_and_its_unit(text: str, seconds: int) -> None:
    """The units are those that a person would guess."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "d", "30", "0d", "-1d", "1.5h", "30 d", " 30d", "30d\n", "30D", "1w", "1h30m", "٣d", "1" * 20 + "d"],
)
def test_what_is_no_span(text: str) -> None:
    """It is not guessed at."""
    assert seconds_of(text) is None
