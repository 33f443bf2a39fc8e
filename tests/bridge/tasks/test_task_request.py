"""Task requests."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.tasks.errors import ErrorCode
from bridge.tasks.request import MAX_REFERENCE_BYTES, Origin, TaskKey, TaskRequest, check_request, encoded

REQUEST = TaskRequest(
    TaskKey("living", "req-1"),
    "task-1",
    AgentAddress("coordinator", "living"),
    AgentAddress("worker", "kitchen"),
    "Implement a function",
    Origin("cis", {"event_id": "$1"}),
)
MOST = 1_000


def test_an_ordinary_request_is_valid() -> None:
    """Optional fields may be omitted."""
    assert check_request(REQUEST, MOST) is None
    assert check_request(replace(REQUEST, context="c", system_prompt="s", model="m", metadata={"a": 1}), MOST) is None


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"": value}
    return value


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"key": TaskKey("living", "")}, "request_id"),
        ({"key": TaskKey("living", "x" * 256)}, "request_id"),
        ({"key": TaskKey("living", "a\0b")}, "request_id"),
        ({"key": TaskKey("living", "\ud800")}, "request_id"),
        ({"key": TaskKey("", "req")}, "node_id"),
        ({"task_id": ""}, "task_id"),
        ({"origin": Origin("", {})}, "protocol"),
        ({"timeout_ms": 0}, "timeout_secs"),
        ({"timeout_ms": -1}, "timeout_secs"),
        ({"prompt": "x" * MOST}, "task"),
        ({"prompt": "\ud800"}, "task"),
        ({"metadata": {"number": 10**30}}, "task"),
        ({"metadata": deep(1_000)}, "task"),
        ({"metadata": {"x": object()}}, "task"),
        ({"origin": Origin("cis", {"x": "x" * MAX_REFERENCE_BYTES})}, "reference"),
        ({"origin": Origin("cis", {"x": "\ud800"})}, "reference"),
    ],
)
def test_the_error_names_the_invalid_field(changed: dict[str, Any], field: str) -> None:
    """ "Wrong payloads get `INVALID_PAYLOAD` with the field named"."""
    error = check_request(replace(REQUEST, **changed), MOST)
    assert error is not None
    assert (error.code, error.metadata["field"]) == (ErrorCode.INVALID_PAYLOAD, field)


def test_the_size_limit_is_exact() -> None:
    """All parts together, in bytes."""
    size = len(encoded(REQUEST.content()) or b"")
    assert check_request(REQUEST, size) is None
    assert check_request(REQUEST, size - 1) is not None


def test_equal_requests_are_equal_bytes() -> None:
    """This distinguishes a repeated request from another one with the same id."""
    one = replace(REQUEST, metadata={"a": 1, "b": {"c": 2, "d": 3}})
    other = replace(REQUEST, metadata={"b": {"d": 3, "c": 2}, "a": 1})
    assert encoded(one.content()) == encoded(other.content())


def test_a_prompt_may_contain_nul() -> None:
    """It is not stored in a text column."""
    assert check_request(replace(REQUEST, prompt="a\0b"), MOST) is None


def test_a_resubmitted_request_has_the_new_origin() -> None:
    """Everything else stays."""
    again = REQUEST.resubmitted(Origin("cis", {"event_id": "$2"}))
    assert again == replace(REQUEST, origin=Origin("cis", {"event_id": "$2"}))
    assert str(again.key) == "req-1 of living"
