"""A task for a Computer is a call of one of its tools: its metadata says which one, and with what; words
alone no Computer reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bridge.address import AgentAddress
from bridge.agent_work import WorkOutcome
from bridge.connectors.offices.flat_error import TOO_MANY
from bridge.connectors.offices.relay import LONGEST_CALL
from bridge.connectors.offices.shape import is_name
from bridge.connectors.offices.tool_result import Outcome, whole_text
from bridge.task import Task
from bridge.task_answer import Answer
from bridge.task_error import ErrorCode, TaskError

TOOL: Final = "tool"
PARAMS: Final = "params"

_FAILED: Final = 1
_LIKE_THIS: Final = 'metadata like {"tool": "add", "params": {"a": 1, "b": 2}}'
_GONE: Final = "The Computer has gone. Whether the tool has done its work is not known."


@dataclass(frozen=True, slots=True)
class ToolTask:
    tool_name: str
    params: Mapping[str, Any]


def read_tool_task(computer: AgentAddress, metadata: Mapping[str, Any]) -> ToolTask | TaskError:
    """`params` may also be the text of an object of JSON: not everybody can send another value than text."""
    tool_name, params = metadata.get(TOOL), metadata.get(PARAMS, {})
    if tool_name is None:
        return _wrong(
            TOOL, f"{computer} is a Computer, and reads no words: its tools are called with {_LIKE_THIS}."
        )
    if not isinstance(tool_name, str) or not is_name(tool_name):
        return _wrong(TOOL, f"The name of a tool is text: send {_LIKE_THIS}.")
    if isinstance(params, str):
        try:
            params = orjson.loads(params)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return _wrong(PARAMS, f"params is no JSON: send {_LIKE_THIS}.")
    if not isinstance(params, dict):
        return _wrong(PARAMS, f"params is an object: send {_LIKE_THIS}.")
    return ToolTask(tool_name, params)


def seconds_for(task: Task, now_ms: int) -> int:
    """A call has as long as its task, and no less than the shortest: what ends the task ends the call,
    too."""
    return max(1, min(-(-(task.deadline - now_ms) // 1000), LONGEST_CALL))


def outcome_of(answer: Mapping[str, Any], call_id: str, *, is_gone: bool) -> WorkOutcome:
    """What the call came to. `is_gone`: the Computer that was called is not there any more."""
    outcome, text = whole_text(answer)
    metadata = {"call_id": call_id, "outcome": outcome.value}
    if answer.get("code") == TOO_MANY:
        return TaskError(ErrorCode.AGENT_BUSY, text, metadata)
    match outcome:
        case Outcome.DONE:
            return Answer(True, text, 0, metadata)
        case Outcome.NOT_FOUND if is_gone:
            return TaskError(ErrorCode.NODE_UNREACHABLE, _GONE, {**metadata, "interrupted": True})
        case Outcome.TIMED_OUT:
            return TaskError(ErrorCode.TIMEOUT, text, metadata)
        case _:
            return Answer(False, text, _FAILED, metadata)


def _wrong(field: str, reason: str) -> TaskError:
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"field": f"metadata.{field}"})
