"""With which code a command ends that has waited for a task.

0 is success; a tool that failed passes its own code on. What is not the tool's fault has a code of its own,
below those that shells give (126 and above) and above what tools commonly use; a timeout has that of
`timeout(1)`. 1 is everything else, 2 wrong usage, 130 Ctrl-C.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bridge.task import State
from bridge.task_answer import Answer
from bridge.task_error import ErrorCode

FAILED: Final = 1
CANCELLED: Final = 125
CODES: Final[Mapping[ErrorCode, int]] = MappingProxyType(
    {
        ErrorCode.INVALID_PAYLOAD: 120,
        ErrorCode.AGENT_NOT_FOUND: 121,
        ErrorCode.AGENT_BUSY: 122,
        ErrorCode.NODE_UNREACHABLE: 123,
        ErrorCode.TIMEOUT: 124,
    }
)


def exit_code(state: State, answer: Answer) -> int:
    """Of a task that has ended."""
    if answer.success:
        return 0
    if state is State.CANCELLED:
        return CANCELLED
    if answer.error_code is not None:
        return CODES[answer.error_code]
    return answer.exit_code if 1 <= answer.exit_code <= 255 else FAILED
