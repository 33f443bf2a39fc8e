"""Answers to tasks."""

import pytest

from bridge.tasks.answer import MAX_EXIT_CODE, MAX_METADATA_BYTES, Answer, cancelled, failure, truncated
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import encoded


@pytest.mark.parametrize("code", list(ErrorCode))
def test_a_failure_has_its_code_in_the_metadata(code: ErrorCode) -> None:
    """ "success:false, exit_code:-1, metadata.error_code"."""
    answer = failure(TaskError(code, "It is so.", {"current_task": "t"}))
    assert answer == Answer(False, "It is so.", -1, {"current_task": "t", "error_code": code.value}, code)


def test_a_cancelled_task_has_no_error_code() -> None:
    """Nothing went wrong."""
    assert cancelled("alice", "wrong one") == Answer(False, "Cancelled by alice: wrong one", -1, {"cancelled": True})
    assert cancelled("alice", None).output == "Cancelled by alice."


def test_an_ordinary_answer_is_unchanged() -> None:
    """NUL bytes included."""
    answer = Answer(True, "done\0 – äöü", 0, {"tokens_used": 1500})
    assert truncated(answer, 1_000) == answer
    plain = Answer(False, "done", 7)
    assert truncated(plain, 4) == plain
    assert truncated(plain, 3) != plain


def test_long_output_is_truncated() -> None:
    """It is cut between characters, and the metadata says so."""
    answer = truncated(Answer(True, "ä" * 100, 0, {"x": 1}), 51)
    assert answer.output == "ä" * 25
    assert answer.metadata == {"x": 1, "output_truncated": True, "output_bytes": 200}


@pytest.mark.parametrize("metadata", [{"x": "y" * MAX_METADATA_BYTES}, {"x": 10**30}, {"x": "\ud800"}, {"x": object()}])
def test_metadata_that_cannot_be_stored_is_dropped(metadata: dict[str, object]) -> None:
    """The output, the error code and the note about truncation stay."""
    error = ErrorCode.TIMEOUT
    answer = truncated(Answer(False, "abc", -1, metadata, error), 2)
    assert answer.metadata == {
        "output_truncated": True,
        "output_bytes": 3,
        "metadata_dropped": True,
        "error_code": "TIMEOUT",
    }


def test_every_answer_can_be_stored() -> None:
    """Unpaired surrogates are replaced, and exit codes are limited to 32 bits."""
    answer = truncated(Answer(False, "a\ud800b", 10**30, {}), 100)
    assert (answer.output, answer.exit_code) == ("a?b", MAX_EXIT_CODE)
    assert truncated(Answer(False, "", -(10**30), {}), 100).exit_code == -MAX_EXIT_CODE
    assert encoded({"output": answer.output}) is not None
