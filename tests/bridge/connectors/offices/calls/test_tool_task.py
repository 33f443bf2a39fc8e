"""Tasks for Computers."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.calls.tasks import ToolTask, read_tool_task, task_outcome, timeout_for
from bridge.connectors.offices.protocol.errors import (
    computer_not_found,
    flat_error,
    interrupted,
    result_error,
    timed_out,
)
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import Task
from tests.support.tasks import request

HANDS = AgentAddress("a/hands", "here")
DONE = {"content": [{"type": "text", "text": "3"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]}


def test_metadata_names_the_tool() -> None:
    """Parameters are optional, and may be a JSON text: not all requesters can send an object."""
    assert read_tool_task(HANDS, {"tool": "add"}) == ToolTask("add", {})
    for params in ({"a": 1}, '{"a": 1}'):
        assert read_tool_task(HANDS, {"tool": "add", "params": params, "x": 1}) == ToolTask("add", {"a": 1})


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({}, "tool"), ({"tool": None}, "tool"), ({"tool": ""}, "tool"), ({"tool": 1}, "tool"),
        ({"tool": "add", "params": 1}, "params"), ({"tool": "add", "params": "1"}, "params"),
        ({"tool": "add", "params": "{"}, "params"), ({"tool": "add", "params": None}, "params"),
        ({"tool": "add", "params": "\ud800"}, "params"),
    ],
)  # fmt: skip
def test_mistakes_name_the_field(metadata: dict[str, Any], field: str) -> None:
    """And show an example."""
    error = read_tool_task(HANDS, metadata)
    assert isinstance(error, TaskError)
    assert (error.code, error.metadata) == (ErrorCode.INVALID_PAYLOAD, {"field": f"metadata.{field}"})
    assert '{"tool": "add"' in error.reason


def test_a_call_has_the_remaining_time_of_its_task() -> None:
    task = Task(request("1"), 0, 90_500)
    assert [timeout_for(task, now_ms) for now_ms in (0, 500, 90_400, 99_000)] == [91, 90, 1, 1]
    assert timeout_for(Task(request("1"), 0, 10**9), 0) == 3_600


@pytest.mark.parametrize(
    ("answer", "is_gone", "outcome"),
    [
        (DONE, False, (True, "3\n(image/png, 2 bytes.)", 0)),
        (result_error("no"), False, (False, "no", 1)),
        (result_error("no", a2c_approval="refused"), False, (False, "no", 1)),
        (computer_not_found("hands"), False, (False, "Computer with name 'hands' not found", 1)),
        (computer_not_found("hands"), True, ErrorCode.NODE_UNREACHABLE),
        (timed_out(5), False, ErrorCode.TIMEOUT),
        (flat_error(429, "too many"), False, ErrorCode.AGENT_BUSY),
        (interrupted(), False, (False, None, 1)),
        ({}, False, (False, "", 1)),
    ],
)
def test_the_answer_to_a_call_is_the_task_outcome(answer: dict[str, Any], is_gone: bool, outcome: Any) -> None:
    """With the tool's output. If the Computer has disconnected, the outcome is not known."""
    found = task_outcome(answer, "c1", is_gone=is_gone)
    assert found.metadata["call_id"] == "c1"
    if isinstance(outcome, ErrorCode):
        assert isinstance(found, TaskError)
        assert found.code is outcome
    else:
        assert isinstance(found, Answer)
        success, output, exit_code = outcome
        assert (found.success, found.exit_code) == (success, exit_code)
        assert output is None or found.output == output
