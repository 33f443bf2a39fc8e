"""The timestamps of events."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import event_fields

TIME = datetime(2026, 2, 8, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-02-08T10:30:00Z", TIME),
        ("2026-02-08t10:30:00z", TIME),
        ("2026-02-08 10:30:00Z", TIME),
        ("2026-02-08T12:30:00+02:00", TIME),
        ("2026-02-08T05:00:00-05:30", TIME),
        ("2026-02-08T10:30:00+00:00", TIME),
        ("2026-02-08T10:29:60Z", TIME),
        ("2026-02-08T10:30:00.5Z", TIME + timedelta(milliseconds=500)),
        ("2026-02-08T10:30:00.123456Z", TIME + timedelta(microseconds=123_456)),
        ("2026-02-08T10:30:00.123456789Z", TIME + timedelta(microseconds=123_456)),
        ("2026-02-08T10:30:00.000000999Z", TIME),
        ("2026-02-08T10:30:00.1234567890123456789Z", TIME + timedelta(microseconds=123_456)),
    ],
)
def test_times_are_read(text: str, time: datetime) -> None:
    """RFC 3339 with any precision; nine digits are cut, not refused."""
    assert event_fields.parse_timestamp(text) == time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-02-08",
        "2026-02-08T10:30:00",
        "2026-02-30T10:30:00Z",
        "2026-13-08T10:30:00Z",
        "2026-02-08T24:30:00Z",
        "2026-02-08T10:30:61Z",
        "2026-02-08T10:30:00+24:00",
        "2026-02-08T10:30:00+01:60",
        "2026-02-08T10:30:00.Z",
        "٢٠٢٦-02-08T10:30:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "9999-12-31T23:59:60Z",
        " 2026-02-08T10:30:00Z",
        "2026-02-08T10:30:00Z\n",
        "2026-02-08T10:30:00." + "1" * 100 + "Z",
    ],
)
def test_invalid_times(text: str) -> None:
    """A time without a zone, or a date that does not exist."""
    assert event_fields.parse_timestamp(text) is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_survives_a_round_trip(time: datetime) -> None:
    """To the microsecond."""
    assert event_fields.parse_timestamp(event_fields.format_timestamp(time)) == time


@given(st.text(max_size=40) | st.from_regex(r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d\Z"))
def test_any_text_is_parsed_or_not(text: str) -> None:
    """Parsing never raises, and a parsed time can be formatted."""
    time = event_fields.parse_timestamp(text)
    assert time is None or event_fields.parse_timestamp(event_fields.format_timestamp(time)) == time


def test_times_are_written_short() -> None:
    """As in the specification, if the time has no fraction."""
    assert event_fields.format_timestamp(TIME) == "2026-02-08T10:30:00Z"
    assert event_fields.format_timestamp(TIME + timedelta(milliseconds=50)) == "2026-02-08T10:30:00.050Z"
    assert event_fields.format_timestamp(TIME + timedelta(microseconds=50_001)) == "2026-02-08T10:30:00.050001Z"


def test_milliseconds_survive_a_round_trip() -> None:
    """Since 1970."""
    assert event_fields.to_milliseconds(TIME) == 1_770_546_600_000
    assert event_fields.from_milliseconds(1_770_546_600_000) == TIME
    assert event_fields.to_milliseconds(TIME + timedelta(microseconds=1_999)) == 1_770_546_600_001
