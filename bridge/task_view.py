"""A task as the command line and other programs are shown it: JSON."""

from collections.abc import Iterable, Mapping
from typing import Any

from bridge.task import State, Task
from bridge.task_answer import Answer
from bridge.task_error import TaskError
from bridge.task_exit import CODES, exit_code
from bridge.task_key_text import key_text


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
