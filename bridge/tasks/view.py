"""Tasks as JSON for the command line and other programs, and exit codes for a command that waits for a task.

0 is success; if a tool failed, its own code is used. Other causes have their own codes, below those that
shells give (126 and above) and above what tools commonly use; a timeout has that of `timeout(1)`. 1 is
everything else, 2 wrong usage, 130 Ctrl-C.
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
EXIT_CODES: Final[Mapping[ErrorCode, int]] = MappingProxyType(
    {
        ErrorCode.INVALID_PAYLOAD: 120,
        ErrorCode.AGENT_NOT_FOUND: 121,
        ErrorCode.AGENT_BUSY: 122,
        ErrorCode.NODE_UNREACHABLE: 123,
        ErrorCode.TIMEOUT: 124,
    }
)


def exit_code(state: State, answer: Answer) -> int:
    """The exit code for a task that has ended."""
    if answer.success:
        return 0
    if state is State.CANCELLED:
        return CANCELLED
    if answer.error_code is not None:
        return EXIT_CODES[answer.error_code]
    return answer.exit_code if 1 <= answer.exit_code <= 255 else FAILED


def task_summary(task: Task) -> dict[str, Any]:
    """One line of a list of tasks."""
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


def task_details(task: Task, progress: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """All details of a task."""
    return {
        **task_summary(task),
        "request": task.request.content(),
        "asked": task.asked,
        "states": state_history(task),
        "progress": list(progress),
        "answer": None if task.answer is None else answer_json(task.state, task.answer),
    }


def state_history(task: Task) -> list[dict[str, Any]]:
    """The states of a task with their known times; the last one is the current state."""
    known = [(State.RECEIVED.value, task.received_at)]
    if task.started_at is not None:
        known.append((State.RUNNING.value, task.started_at))
    if task.finished_at is not None:
        known.append((task.state.value, task.finished_at))
    history: list[dict[str, Any]] = [{"state": state, "at": at} for state, at in known]
    if history[-1]["state"] != task.state.value:
        history.append({"state": task.state.value, "at": None})
    return history


def answer_json(state: State, answer: Answer) -> dict[str, Any]:
    """`exit` is the exit code of a command that waits for the task."""
    return {
        "success": answer.success,
        "output": answer.output,
        "exit_code": answer.exit_code,
        "error_code": None if answer.error_code is None else answer.error_code.value,
        "advice": None if answer.error_code is None else answer.error_code.advice,
        "metadata": dict(answer.metadata),
        "exit": exit_code(state, answer),
    }


def refusal_json(refusal: TaskError) -> dict[str, Any]:
    """The JSON of a refused request."""
    return {
        "error_code": refusal.code.value,
        "reason": refusal.reason,
        "advice": refusal.code.advice,
        "metadata": dict(refusal.metadata),
        "exit": EXIT_CODES[refusal.code],
    }
