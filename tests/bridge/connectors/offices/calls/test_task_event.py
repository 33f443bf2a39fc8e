"""The task events of an office's Agent."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.calls.tasks import (
    agent_left,
    cancel_content,
    node_stopped,
    not_declared,
    read_answer,
    task_content,
)
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import Task
from tests.support.tasks import request


def test_the_content_of_a_task() -> None:
    """It includes the remaining time, and the id with which the task is cancelled."""
    task = Task(request("1", context="c", metadata={"a": [1]}), 1_000, 61_000, id=7)
    assert task_content(task, 2_500) == {
        "task_id": "task-1", "work_id": "7", "from": "coordinator@living", "prompt": "Implement a function",
        "context": "c", "system_prompt": None, "model": None, "metadata": {"a": [1]}, "deadline_secs": 58.5,
    }  # fmt: skip
    assert task_content(task, 99_000)["deadline_secs"] == 0
    assert cancel_content(task) == {"task_id": "task-1", "work_id": "7"}


@pytest.mark.parametrize(
    ("acknowledgement", "answer"),
    [
        ({"success": True, "output": "x"}, Answer(True, "x", 0)),
        ({"success": True}, Answer(True, "", 0)),
        ({"success": False, "output": "x"}, Answer(False, "x", 1)),
        ({"success": False, "output": "x", "exit_code": 7}, Answer(False, "x", 7)),
        ({"success": True, "output": "x", "exit_code": 2**40}, Answer(True, "x", 0)),
        ({"success": True, "output": "x", "metadata": {"a": 1}}, Answer(True, "x", 0, {"a": 1})),
        ({"error": "no"}, Answer(False, "no", 1)),
        ({"error": {"message": "no"}}, Answer(False, "no", 1)),
        ({"error": {"code": "NONSENSE", "reason": "no"}}, Answer(False, "no", 1)),
        ({"error": {"code": "AGENT_NOT_FOUND", "reason": "no"}}, Answer(False, "no", 1)),
        ({"error": {"code": "TIMEOUT", "reason": "no"}}, TaskError(ErrorCode.TIMEOUT, "no")),
    ],
)
def test_the_acknowledgement_is_the_answer(acknowledgement: Any, answer: Any) -> None:
    """An error code counts only if the Agent can know that it applies."""
    assert read_answer((acknowledgement,)) == answer


@pytest.mark.parametrize("arguments", [(), (None,), ("done",), ({},), ({"success": 1},), ({"success": True}, 1)])
def test_any_other_acknowledgement_is_a_failure(arguments: tuple[Any, ...]) -> None:
    """An Agent that declares tasks but does not handle the event acknowledges with nothing."""
    outcome = read_answer(arguments)
    assert isinstance(outcome, Answer)
    assert (outcome.success, outcome.error_code) == (False, None)
    assert "without an answer" in outcome.output


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["success", "output", "error", "code"]), inner),
)


@given(st.lists(JSON, max_size=2))
def test_anything_can_be_read(arguments: list[Any]) -> None:
    assert isinstance(read_answer(arguments), Answer | TaskError)


def test_errors_without_an_answer() -> None:
    """Whether the work had begun makes the difference."""
    address = AgentAddress("a/boss", "here")
    assert not_declared(address).code is ErrorCode.INVALID_PAYLOAD
    for error in (agent_left(), node_stopped()):
        assert (error.code, error.metadata) == (ErrorCode.NODE_UNREACHABLE, {"interrupted": True})
    assert orjson.dumps(not_declared(address).metadata)
