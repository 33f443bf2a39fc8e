"""Tasks as an Agent of an office reads them: `palaver:task`, whose acknowledgement is the answer, and
`palaver:task_cancel` for one that is not wanted any more.

The protocol has no such events; so only whoever has declared that it reads tasks is sent one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.agent_work import WorkOutcome
from bridge.task import Task
from bridge.task_answer import MOST_EXIT_CODE, Answer
from bridge.task_error import ErrorCode, TaskError

TASK: Final = "palaver:task"
CANCEL: Final = "palaver:task_cancel"
AT_ONCE: Final = 1
WAITING: Final = 100
"""Tasks that an Agent works on, and that wait for it: as many as for any program that attaches itself."""
LONGEST_REASON: Final = 4_000

_FAILED: Final = 1
_NO_ANSWER: Final = (
    "The Agent has acknowledged the task without an answer: that is an object with success and output, or"
    " with error."
)
# An Agent may say with which of them it refuses; that it is not there it cannot say.
_CODES: Final = frozenset(code.value for code in ErrorCode if code is not ErrorCode.AGENT_NOT_FOUND)


def task_content(task: Task, now_ms: int) -> dict[str, Any]:
    """`work_id` is the node's own name for it: requesters choose `task_id`, and two may choose the same."""
    request = task.request
    return {
        "task_id": request.task_id,
        "work_id": str(task.id),
        "from": str(request.from_address),
        "prompt": request.prompt,
        "context": request.context,
        "system_prompt": request.system_prompt,
        "model": request.model,
        "metadata": dict(request.metadata),
        "deadline_secs": max(0, task.deadline - now_ms) / 1000,
    }


def cancel_content(task: Task) -> dict[str, Any]:
    return {"task_id": task.request.task_id, "work_id": str(task.id)}


def read_answer(arguments: Sequence[Any]) -> WorkOutcome:
    """Of the acknowledgement, which may be anything."""
    said = arguments[0] if len(arguments) == 1 else None
    if not isinstance(said, Mapping):
        return Answer(False, _NO_ANSWER, _FAILED)
    error = said.get("error")
    if isinstance(error, str) and error:
        return Answer(False, error, _FAILED)
    if isinstance(error, Mapping):
        return _refusal(error)
    success, output = said.get("success"), said.get("output", "")
    if not isinstance(success, bool) or not isinstance(output, str):
        return Answer(False, _NO_ANSWER, _FAILED)
    metadata = said.get("metadata")
    return Answer(
        success,
        output,
        _exit_code(said.get("exit_code"), success),
        dict(metadata) if isinstance(metadata, dict) else {},
    )


def _refusal(error: Mapping[str, Any]) -> WorkOutcome:
    """With one of the codes, or in other words."""
    code, reason = error.get("code"), error.get("reason", error.get("message"))
    shown = reason[:LONGEST_REASON] if isinstance(reason, str) and reason else _NO_ANSWER
    if isinstance(code, str) and code in _CODES:
        return TaskError(ErrorCode(code), shown)
    return Answer(False, shown, _FAILED)


def _exit_code(said: object, success: bool) -> int:
    if type(said) is int and abs(said) <= MOST_EXIT_CODE:
        return said
    return 0 if success else _FAILED


# -- why there is no answer of the Agent's --


def not_declared(agent: AgentAddress) -> TaskError:
    """The Agent is there, and nothing is wrong with the task but that it is one."""
    reason = (
        f"{agent} is the Agent of an office, and does not read tasks: its connection has not declared that it"
        " does."
    )
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"reason": "tasks_not_declared"})


def agent_gone() -> TaskError:
    reason = "The Agent has left its office while it worked on it. Whether the work was done is not known."
    return TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})


def node_stopped() -> TaskError:
    reason = "The node was stopped while it was worked on. Whether the work was done is not known."
    return TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
