"""A task as an agent of this node gets it, and what the agent says of it.

How the agent is attached makes no difference: a command that the node starts, a program that has connected,
or a part of the node itself. Where tasks come from does not either.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from bridge.task_error import TaskError


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


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What the agent made of it. That it did not succeed is an answer too; when there is none, it is a
    `TaskError`."""

    success: bool
    output: str
    exit_code: int
    metadata: Mapping[str, Any] = field(default_factory=dict)


WorkOutcome: TypeAlias = WorkResult | TaskError


class WorkReport(Protocol):
    """Of one task, at one attempt. Everything that returns has been kept; what is said of a task that is
    over, or of an attempt that is not the newest, changes nothing."""

    def started(self) -> Awaitable[bool]:
        """From now on it is not given to anybody else. False: it is not wanted any more."""
        ...

    def progress(self, text: str) -> Awaitable[None]: ...

    def finished(self, outcome: WorkOutcome) -> Awaitable[None]: ...


class Worker(Protocol):
    """Whatever brings tasks to agents of this node."""

    def deliver(self, task: TaskToDo, report: WorkReport) -> Awaitable[TaskError | None]:
        """Returns when the agent has it, before it has begun; or says why it is not taken. One that is there
        already is not begun a second time."""
        ...

    def withdraw(self, work_id: str) -> Awaitable[None]:
        """Returns when nobody works on it any more. Nothing more is reported of it."""
        ...
