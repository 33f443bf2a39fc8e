"""How the outcome of a task is said in a `task.response`, and how one is read.

"`success:false, exit_code:-1`, `metadata.error_code`; an ordinary failure of the tool has exit code 1 and no
code". Published nodes set no code at all: their −1 is a failure like another.
"""

from typing import Final

from bridge.connectors.cis.events import TaskResult
from bridge.connectors.cis.json_value import sendable, sendable_members
from bridge.task_answer import Answer
from bridge.task_error import EXIT_CODE, ErrorCode

KEY: Final = "error_code"
FAILED: Final = 1


def result_of(answer: Answer) -> TaskResult:
    # A code that the tool's own metadata has is not one of ours.
    metadata = {name: value for name, value in sendable_members(answer.metadata).items() if name != KEY}
    if answer.error_code is not None:
        metadata[KEY] = answer.error_code.value
    return TaskResult(
        success=answer.success,
        output=sendable(answer.output),
        exit_code=_exit_code(answer),
        metadata=metadata,
    )


def answer_of(result: TaskResult) -> Answer:
    code = None if result.success else _code(result.metadata.get(KEY))
    return Answer(result.success, result.output, result.exit_code, result.metadata, code)


def _code(said: object) -> ErrorCode | None:
    """A code that nobody knows is none."""
    return ErrorCode(said) if isinstance(said, str) and said in ErrorCode.__members__ else None


def _exit_code(answer: Answer) -> int:
    """A success is 0, a code −1; and what else ended badly is not 0, whatever the tool says."""
    if answer.success:
        return 0
    if answer.error_code is not None:
        return EXIT_CODE
    return answer.exit_code if answer.exit_code and -(2**31) <= answer.exit_code < 2**31 else FAILED
