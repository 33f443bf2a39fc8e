"""A task as an agent of this node gets it, and its possible outcomes.

It is the same for commands that the node starts and for programs that attach themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bridge.tasks.answer import Answer
from bridge.tasks.errors import TaskError
from bridge.tasks.task import Task


@dataclass(frozen=True, slots=True)
class TaskAssignment:
    work_id: str
    """The node's own id of the task. `task_id` and `request_id` are chosen by requesters and need not be
    unique."""
    attempt: int
    """Raised each time that the task is offered."""
    task_id: str
    request_id: str
    from_agent: str
    to_agent: str
    """Like `from_agent` an address."""
    prompt: str
    deadline_ms: int
    """Milliseconds since 1970."""
    context: str = ""
    system_prompt: str | None = None
    model: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


WorkOutcome: TypeAlias = Answer | TaskError
"""An answer, which may report the agent's failure, or an error that explains why there is no answer."""


def assignment_of(task: Task, attempt: int = 1) -> TaskAssignment:
    request = task.request
    return TaskAssignment(
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
