"""How the outcome of a task is said in a `task.response`, and how one is read.

"`success:false, exit_code:-1`, `metadata.error_code`; an ordinary failure of the tool has exit code 1 and no
code". Published nodes set no code at all: their −1 is a failure like another.
"""

from typing import Any, Final

from bridge.agent_work import WorkOutcome, WorkResult
from bridge.connectors.cis.events import TaskResult
from bridge.connectors.cis.json_value import MAX_DEPTH, problem_of, sendable
from bridge.task_error import EXIT_CODE, ErrorCode, TaskError

KEY: Final = "error_code"
FAILED: Final = 1
_DEPTH_LEFT: Final = 4
"""Of the content's levels, those that lie round the metadata's values."""


def result_of(outcome: WorkOutcome) -> TaskResult:
    if isinstance(outcome, TaskError):
        metadata = {**_metadata(outcome.metadata), KEY: outcome.code.value}
        return TaskResult(
            success=False, output=sendable(outcome.reason), exit_code=EXIT_CODE, metadata=metadata
        )
    # A code that the tool's own metadata has is not one of ours.
    metadata = {name: value for name, value in _metadata(outcome.metadata).items() if name != KEY}
    return TaskResult(
        success=outcome.success,
        output=sendable(outcome.output),
        exit_code=_exit_code(outcome),
        metadata=metadata,
    )


def outcome_of(result: TaskResult) -> WorkOutcome:
    code = _code(result.metadata.get(KEY))
    if result.success or code is None:
        return WorkResult(result.success, result.output, result.exit_code, result.metadata)
    metadata = {name: value for name, value in result.metadata.items() if name != KEY}
    return TaskError(code, result.output, metadata)


def _code(said: object) -> ErrorCode | None:
    """A code that nobody knows is none."""
    return ErrorCode(said) if isinstance(said, str) and said in ErrorCode.__members__ else None


def _exit_code(outcome: WorkResult) -> int:
    """A success is 0; and what ended otherwise is not, whatever the tool says."""
    if outcome.success:
        return 0
    return outcome.exit_code if outcome.exit_code and -(2**31) <= outcome.exit_code < 2**31 else FAILED


def _metadata(said: Any) -> dict[str, Any]:
    """What of a tool's own metadata can be sent."""
    return {
        name: value
        for name, value in dict(said).items()
        if problem_of({name: value}, MAX_DEPTH - _DEPTH_LEFT) is None
    }
