"""Durations as people write them."""

import pytest

from bridge.text.times import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("90s", 90), ("15m", 900), ("2h", 7_200), ("30d", 30 * 86_400)]
)
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    """The units are s, m, h and d."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "d", "30", "0d", "-1d", "1.5h", "30 d", " 30d", "30d\n", "30D", "1w", "1h30m", "٣d", "1" * 20 + "d"]
)
def test_other_text_is_not_a_duration(text: str) -> None:
    """No other notation is accepted."""
    assert seconds_of(text) is None
