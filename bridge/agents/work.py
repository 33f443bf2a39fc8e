"""A task as an agent of this node gets it, and what can come of it.

How the agent is attached makes no difference: a command that the node starts, or a program that has attached
itself, from this machine or another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bridge.tasks.answer import Answer
from bridge.tasks.errors import TaskError
from bridge.tasks.task import Task


@dataclass(frozen=True, slots=True)
class TaskToDo:
    work_id: str
    """The node's own name for it: requesters choose `task_id` and `request_id`, and two may choose the
    same."""
    attempt: int
    """Raised each time that the task is given to somebody."""
    task_id: str
    request_id: str
    from_agent: str
    to_agent: str
    """Addresses."""
    prompt: str
    deadline_ms: int
    """Milliseconds since 1970."""
    context: str = ""
    system_prompt: str | None = None
    model: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


WorkOutcome: TypeAlias = Answer | TaskError
"""That an agent did not succeed is an answer too; an error is why there is none."""


def to_do(task: Task, attempt: int = 1) -> TaskToDo:
    request = task.request
    return TaskToDo(
        work_id=str(task.id),
        attempt=attempt,
        task_id=request.task_id,
        request_id=request.key.request_id,
        from_agent=str(request.from_address),
        to_agent=str(request.to_address),
        prompt=request.prompt,
        deadline_ms=task.deadline,
        context=request.context,
        system_prompt=request.system_prompt,
        model=request.model,
        metadata=request.metadata,
    )
