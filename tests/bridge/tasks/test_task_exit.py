"""The exit code of a command that waits for a task."""

import pytest

from bridge.tasks.answer import Answer, cancelled, failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import State
from bridge.tasks.view import CANCELLED, EXIT_CODES, exit_code


def test_each_error_code_has_its_own_exit_code() -> None:
    """None has another meaning already: success, failure, wrong usage, Ctrl-C, codes of shells."""
    codes = [*EXIT_CODES.values(), CANCELLED]
    assert set(EXIT_CODES) == set(ErrorCode)
    assert len(set(codes)) == len(codes)
    assert all(2 < code < 126 for code in codes)
    assert EXIT_CODES[ErrorCode.TIMEOUT] == 124
    for code, number in EXIT_CODES.items():
        assert exit_code(State.FAILED, failure(TaskError(code, "It is so."))) == number


@pytest.mark.parametrize(("said", "ends"), [(3, 3), (255, 255), (1, 1), (0, 1), (-1, 1), (256, 1), (-9, 1)])
def test_the_exit_code_of_a_failed_tool_is_passed_on(said: int, ends: int) -> None:
    """If a process can end with it, and never as success."""
    assert exit_code(State.FAILED, Answer(False, "", said)) == ends


def test_success_has_exit_code_zero() -> None:
    """Whatever code the answer contains."""
    assert exit_code(State.DONE, Answer(True, "", 7)) == 0
    assert exit_code(State.CANCELLED, cancelled("somebody", None)) == CANCELLED
