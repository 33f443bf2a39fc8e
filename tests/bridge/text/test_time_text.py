"""Times and durations for people."""

import pytest

from bridge.text.times import ago, duration, moment


def test_a_time_is_formatted_in_utc() -> None:
    """Logs of several machines can be compared. The time of an event can be any number."""
    assert moment(0) == "1970-01-01 00:00:00 UTC"
    assert moment(1_700_000_000_999) == "2023-11-14 22:13:20 UTC"
    assert moment(None) == "–"
    assert moment(2**63) == str(2**63)
    assert moment(10**400) == str(10**400)
    assert moment(-1000) == "1969-12-31 23:59:59 UTC"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (999, "0 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_061_000, "1 d 1 h"),
        (-61_000, "-1 min 1 s"),
        (None, "–"),
    ],
)
def test_a_duration_has_two_units(milliseconds: int | None, text: str) -> None:
    """Smaller units are omitted."""
    assert duration(milliseconds) == text


def test_a_time_relative_to_now() -> None:
    """In the past or in the future."""
    assert ago(1_000, 61_000) == "1 min ago"
    assert ago(61_000, 1_000) == "in 1 min"
    assert ago(None, 1_000) == "–"
