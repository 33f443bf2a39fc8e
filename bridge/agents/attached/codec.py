"""From what a program has sent to a message, or to a refusal that names the field.

What the node says through a WebSocket, as text.

It is made without the models: what the node says itself needs no looking through. A test holds both together.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from bridge.agents.attached.messages import Message
from bridge.agents.work import TaskToDo
from bridge.text.terminal import harmless
from federation.matrix.errors import MatrixError

M = TypeVar("M", bound=Message)

_LONGEST = 200


def read_json(body: bytes | str) -> dict[str, Any]:
    """Raises `MatrixError`."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise MatrixError("M_NOT_JSON", "The message is not JSON.", 400) from None
    if not isinstance(value, dict):
        raise MatrixError("M_BAD_JSON", "The message is not a JSON object.", 400)
    return value


def read(model: type[M], value: Mapping[str, Any], *, is_text: bool = False) -> M:
    """Nothing is converted, but for text where everything is text: in an address. Raises `MatrixError`."""
    try:
        return model.model_validate(value, strict=not is_text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = harmless(".".join(map(str, first["loc"])), _LONGEST)
        what = harmless(first["msg"].removeprefix("Value error, "), _LONGEST)
        raise MatrixError(
            "M_BAD_JSON", f"{where or 'The message'}: {what}.", 400, fields={"field": where} if where else {}
        ) from None


def call_answer(number: int, answer: Message) -> str:
    """As a `CallAnswer` without a problem."""
    return f'{{"id":{number},"answer":{answer.model_dump_json()},"problem":null,"status":200}}'


def push(task: TaskToDo | None, cancelled: Sequence[str], now_ms: int) -> str:
    """As a `Push`, with what there is in it."""
    said: dict[str, Any] = {}
    if task is not None:
        said["task"] = {
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
        said["cancelled"] = cancelled
    return orjson.dumps(said, default=dict).decode()
