"""Parsing requests for events."""

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.requests import MissingEvents, backfill, event_id, missing_events, parse_timestamp


def test_missing_events() -> None:
    """With the defaults of missing fields."""
    assert missing_events({}) == MissingEvents((), (), 10, 0)
    body = {"earliest_events": ["$a"], "latest_events": ["$b"], "limit": 500, "min_depth": 7, "more": 1}
    assert missing_events(body) == MissingEvents(("$a",), ("$b",), 20, 7)
    assert missing_events({"limit": -3}).limit == 0


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"latest_events": "$a"},
        {"latest_events": [1]},
        {"earliest_events": ["$a\0"]},
        {"earliest_events": ["$a"] * 101},
        {"limit": "10"},
        {"limit": True},
        {"min_depth": 1.5},
    ],
)
def test_an_invalid_body(body: object) -> None:
    """400."""
    with pytest.raises(MatrixError) as refused:
        missing_events(body)
    assert refused.value.status == 400


def test_backfill() -> None:
    """At most a hundred events."""
    assert backfill(["$a", "$b"], "1000") == (("$a", "$b"), 100)
    assert backfill(["$a"], "-5") == (("$a",), 0)
    for events, limit in (([], "1"), (["$a"], None), (["$a"], "x"), (["$a"] * 101, "1"), (["\0"], "1")):
        with pytest.raises(MatrixError):
            backfill(events, limit)


def test_timestamp_and_direction() -> None:
    """The default direction is forwards."""
    assert parse_timestamp({"ts": "5"}) == (5, "forwards")
    assert parse_timestamp({"ts": "-5", "dir": "b"}) == (-5, "backwards")
    for query in ({}, {"ts": "١"}, {"ts": "9" * 19}, {"ts": "1", "dir": "x"}):
        with pytest.raises(MatrixError):
            parse_timestamp(query)


def test_event_id() -> None:
    """It is required."""
    assert event_id({"event_id": "$a"}) == "$a"
    for query in ({}, {"event_id": ""}, {"event_id": "$\0"}):
        with pytest.raises(MatrixError):
            event_id(query)
