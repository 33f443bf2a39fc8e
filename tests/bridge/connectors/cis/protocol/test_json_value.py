"""Which JSON values may stand in an event."""

import json
from typing import Any

import pytest
from hypothesis import given

from bridge.connectors.cis.protocol.json_values import (
    MAX_DEPTH,
    MAX_INTEGER,
    MIN_INTEGER,
    problem_of,
    sendable,
)
from tests.bridge.connectors.cis.samples import HONEST, HOSTILE, nested


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        ({"a": {"b": ["x", "\0"]}}, "a.b.1", "holds NUL"),
        ({"a": "\ud800"}, "a", "holds half a character"),
        ({"a": {"\0": 1}}, "a", "has a name that holds NUL or half a character"),
        ({"\ud800": 1}, "content", "has a name that holds NUL or half a character"),
        ({"a": [MAX_INTEGER + 1]}, "a.0", "is a number that is too large"),
        ({"a": MIN_INTEGER - 1}, "a", "is a number that is too large"),
        ({"a": 10**5000}, "a", "is a number that is too large"),
        ({"a": float("inf")}, "a", "is not a number"),
        ({"a": float("nan")}, "a", "is not a number"),
        ({"a": b""}, "a", "is not JSON"),
        ({"a": {1: 1}}, "a", "has a name that is not a string"),
        ({"x" * 500: "\0"}, "x" * 64, "holds NUL"),
    ],
)
def test_what_may_not_be_there(value: Any, path: str, problem: str) -> None:
    """The path says where, and is no longer than the names on it may be shown."""
    assert problem_of(value) == (path, problem)


def test_depth_has_a_limit() -> None:
    """However deep it is, looking at it does not fail."""
    assert problem_of(nested(MAX_DEPTH)) is None
    refused = problem_of(nested(MAX_DEPTH + 1))
    assert refused is not None
    assert refused[1] == f"is nested deeper than {MAX_DEPTH} levels"
    assert problem_of(nested(100_000)) is not None


@given(HONEST)
def test_what_is_well_can_be_written(value: Any) -> None:
    """As UTF-8, and read as the same value."""
    assert problem_of(value) is None
    assert json.loads(json.dumps(value, ensure_ascii=False).encode()) == value


@given(HOSTILE)
def test_any_value_is_well_or_is_not(value: Any) -> None:
    """What is well can be written; nothing is raised for the rest."""
    if problem_of(value) is None:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def test_text_of_our_own_is_made_sendable() -> None:
    """What a program writes on its output may be anything."""
    assert sendable("ok\n") == "ok\n"
    assert sendable("a\0b\ud800c") == "a\ufffdb\ufffdc"
    assert problem_of(sendable("\0\udfff")) is None
