"""The conversion between answers and results of a `task.response`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.error_codes import to_answer, to_result
from bridge.connectors.cis.protocol.events import TaskResponse, TaskResult
from bridge.peers.peer import PeerProfile
from bridge.tasks.answer import Answer, cancelled, failure
from bridge.tasks.errors import ErrorCode, TaskError
from federation.matrix.canonical_json import encode
from tests.bridge.connectors.cis.event_builders import COORDINATOR, NOON, WORKER
from tests.bridge.connectors.cis.samples import HONEST, HONEST_TEXT, HOSTILE, HOSTILE_TEXT

ERRORS = st.builds(TaskError, st.sampled_from(ErrorCode), HONEST_TEXT, st.dictionaries(HONEST_TEXT, HONEST, max_size=3))
ANSWERS = st.builds(
    Answer,
    st.booleans(),
    HOSTILE_TEXT,
    st.integers(),
    st.dictionaries(HOSTILE_TEXT, HOSTILE),
    st.none() | st.sampled_from(ErrorCode),
)


@pytest.mark.parametrize("code", ErrorCode)
def test_each_code_as_a_result(code: ErrorCode) -> None:
    """As in the specification's example: no success, −1, the reason as output and the code in metadata."""
    answer = failure(TaskError(code, "It is so.", {"current_task": "task-123"}))
    result = to_result(answer)
    assert result.model_dump() == {
        "success": False,
        "output": "It is so.",
        "exit_code": -1,
        "metadata": {"error_code": code.value, "current_task": "task-123"},
    }
    assert to_answer(result) == answer


@pytest.mark.parametrize(
    ("answer", "exit_code"),
    [
        (Answer(True, "ok", 0, {"n": 1}), 0),
        (Answer(True, "ok", 7), 0),
        (Answer(False, "no", 1), 1),
        (Answer(False, "no", 137), 137),
        (Answer(False, "no", -9), -9),
        (Answer(False, "no", 0), 1),
        (Answer(False, "no", 2**40), 1),
        (cancelled("me@here", None), -1),
    ],
)
def test_the_result_of_a_tool(answer: Answer, exit_code: int) -> None:
    """It has no error code, and its exit code agrees with its success."""
    result = to_result(answer)
    assert (result.success, result.output, result.exit_code) == (answer.success, answer.output, exit_code)
    assert result.metadata == answer.metadata
    assert to_answer(result) == Answer(answer.success, answer.output, exit_code, answer.metadata)


@pytest.mark.parametrize(
    "metadata", [{}, {"error_code": None}, {"error_code": "E_BUSY"}, {"error_code": ["TIMEOUT"]}, {"error_code": 5}]
)
def test_a_failure_without_a_known_code(metadata: dict[str, Any]) -> None:
    """Published nodes set none: it is read as a failure of the tool, with its output."""
    result = TaskResult(success=False, output="boom", exit_code=-1, metadata=metadata)
    assert to_answer(result) == Answer(False, "boom", -1, metadata)


def test_a_success_with_a_code_is_a_success() -> None:
    """A tool's metadata cannot add an error code to its failure."""
    result = TaskResult(success=True, output="ok", exit_code=0, metadata={"error_code": "TIMEOUT"})
    assert to_answer(result) == Answer(True, "ok", 0, {"error_code": "TIMEOUT"})
    assert to_result(Answer(False, "no", 1, {"error_code": "TIMEOUT", "a": 1})).metadata == {"a": 1}


@given(ERRORS)
def test_an_error_survives_a_round_trip(error: TaskError) -> None:
    """With its code, output and metadata."""
    assert to_answer(to_result(failure(error))) == failure(error)


@given(ANSWERS)
def test_any_answer_can_be_sent(answer: Answer) -> None:
    """Values that an event cannot contain are replaced or left out."""
    response = TaskResponse(
        request_id="r", from_agent=WORKER, to_agent=COORDINATOR, result=to_result(answer), timestamp=NOON
    )
    for profile in PeerProfile:
        assert content.read(TaskResponse.TYPE, content.render(response, profile)) == response
    encode(content.render(response, PeerProfile.MATRIX))
