"""Parses the messages of programs, and encodes the node's WebSocket messages.

Encoding does not use the models, because the node's own messages need no validation. A test compares both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from bridge.agents.attached.messages import Message
from bridge.agents.work import TaskAssignment
from bridge.text.terminal import harmless
from federation.matrix.errors import MatrixError

M = TypeVar("M", bound=Message)

_MAX_ERROR_LENGTH = 200


def parse_json_object(body: bytes | str) -> dict[str, Any]:
    """Raises `MatrixError`."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MatrixError("M_NOT_JSON", "The message is not JSON.", 400) from None
    if not isinstance(value, dict):
        raise MatrixError("M_BAD_JSON", "The message is not a JSON object.", 400)
    return value


def parse_message(model: type[M], value: Mapping[str, Any], *, is_text: bool = False) -> M:
    """Validate a message without converting values, except in a query string, where all values are text
    (`is_text`). Raises `MatrixError` with the name of the wrong field."""
    try:
        return model.model_validate(value, strict=not is_text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = harmless(".".join(map(str, first["loc"])), _MAX_ERROR_LENGTH)
        what = harmless(first["msg"].removeprefix("Value error, "), _MAX_ERROR_LENGTH)
        raise MatrixError(
            "M_BAD_JSON", f"{where or 'The message'}: {what}.", 400, fields={"field": where} if where else {}
        ) from None


def call_answer_json(number: int, answer: Message) -> str:
    """A `CallAnswer` without a problem."""
    return f'{{"id":{number},"answer":{answer.model_dump_json()},"problem":null,"status":200}}'


def push_json(task: TaskAssignment | None, cancelled: Sequence[str], now_ms: int) -> str:
    """A `Push` with a task, cancellations, or both."""
    push: dict[str, Any] = {}
    if task is not None:
        push["task"] = {
            "work_id": task.work_id,
            "attempt": task.attempt,
            "task_id": task.task_id,
            "request_id": task.request_id,
            "from_agent": task.from_agent,
            "to_agent": task.to_agent,
            "prompt": task.prompt,
            "context": task.context,
            "system_prompt": task.system_prompt,
            "model": task.model,
            "metadata": task.metadata,
            "deadline_ms": task.deadline_ms,
            "seconds_left": max(0, task.deadline_ms - now_ms) / 1000,
        }
    if cancelled:
        push["cancelled"] = cancelled
    return orjson.dumps(push, default=dict).decode()
