"""A task as the command line and other programs are shown it: JSON.

With which code a command ends that has waited for a task.

0 is success; a tool that failed passes its own code on. What is not the tool's fault has a code of its own,
below those that shells give (126 and above) and above what tools commonly use; a timeout has that of
`timeout(1)`. 1 is everything else, 2 wrong usage, 130 Ctrl-C.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import key_text
from bridge.tasks.task import State, Task

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


def line_of(task: Task) -> dict[str, Any]:
    """What a list shows of it."""
    request, answer = task.request, task.answer
    return {
        "task": key_text(request.key),
        "task_id": request.task_id,
        "from": str(request.from_address),
        "to": str(request.to_address),
        "protocol": request.origin.protocol,
        "state": task.state.value,
        "elsewhere": task.elsewhere,
        "received_at": task.received_at,
        "started_at": task.started_at,
        "finished_at": task.finished_at,
        "deadline": task.deadline,
        "error_code": None if answer is None or answer.error_code is None else answer.error_code.value,
    }


def view_of(task: Task, progress: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """All that is known of it."""
    return {
        **line_of(task),
        "request": task.request.content(),
        "asked": task.asked,
        "states": states_of(task),
        "progress": list(progress),
        "answer": None if task.answer is None else answer_of(task.state, task.answer),
    }


def states_of(task: Task) -> list[dict[str, Any]]:
    """What it has been, as far as it is known when; the last is what it is."""
    known = [(State.RECEIVED.value, task.received_at)]
    if task.started_at is not None:
        known.append((State.RUNNING.value, task.started_at))
    if task.finished_at is not None:
        known.append((task.state.value, task.finished_at))
    said: list[dict[str, Any]] = [{"state": state, "at": at} for state, at in known]
    if said[-1]["state"] != task.state.value:
        said.append({"state": task.state.value, "at": None})
    return said


def answer_of(state: State, answer: Answer) -> dict[str, Any]:
    """`exit` is the code with which a command ends that has waited for it."""
    return {
        "success": answer.success,
        "output": answer.output,
        "exit_code": answer.exit_code,
        "error_code": None if answer.error_code is None else answer.error_code.value,
        "advice": None if answer.error_code is None else answer.error_code.advice,
        "metadata": dict(answer.metadata),
        "exit": exit_code(state, answer),
    }


def refusal_of(refusal: TaskError) -> dict[str, Any]:
    """Of a request that became no task."""
    return {
        "error_code": refusal.code.value,
        "reason": refusal.reason,
        "advice": refusal.code.advice,
        "metadata": dict(refusal.metadata),
        "exit": CODES[refusal.code],
    }
