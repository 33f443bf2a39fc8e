"""What the node says through a WebSocket, as text.

It is made without the models: what the node says itself needs no looking through. A test holds both together.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from bridge.agent_api.messages import Message
from bridge.agent_work import TaskToDo


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
