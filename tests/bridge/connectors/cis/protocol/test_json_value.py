"""The JSON values that an event may contain."""

import json
from typing import Any

import pytest
from hypothesis import given

from bridge.connectors.cis.protocol.json_values import MAX_DEPTH, MAX_INTEGER, MIN_INTEGER, problem_of, sendable
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
def test_values_that_are_not_allowed(value: Any, path: str, problem: str) -> None:
    """The path names the value, with shortened names."""
    assert problem_of(value) == (path, problem)


def test_depth_has_a_limit() -> None:
    """The check itself works at any depth."""
    assert problem_of(nested(MAX_DEPTH)) is None
    refused = problem_of(nested(MAX_DEPTH + 1))
    assert refused is not None
    assert refused[1] == f"is nested deeper than {MAX_DEPTH} levels"
    assert problem_of(nested(100_000)) is not None


@given(HONEST)
def test_allowed_values_survive_encoding(value: Any) -> None:
    """As UTF-8, and decoded to the same value."""
    assert problem_of(value) is None
    assert json.loads(json.dumps(value, ensure_ascii=False).encode()) == value


@given(HOSTILE)
def test_any_value_is_allowed_or_refused(value: Any) -> None:
    """The check never raises, and allowed values can be encoded."""
    if problem_of(value) is None:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def test_local_text_is_made_sendable() -> None:
    """A program's output may contain any characters."""
    assert sendable("ok\n") == "ok\n"
    assert sendable("a\0b\ud800c") == "a\ufffdb\ufffdc"
    assert problem_of(sendable("\0\udfff")) is None
