"""What the task service needs of connectors: they deliver tasks to agents, and answers to requesters.

Every method may be called more than once for the same task, because a process may be killed after the call
and before it is recorded.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from bridge.tasks.errors import TaskError
from bridge.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Delivered:
    """The agent has the task, or will get it even if this process ends: the task is in a durable queue, or
    where the agent fetches it. An agent of this node still has to call `TaskService.begin`."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The agent refuses the task, and would refuse it again."""

    error: TaskError


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The delivery is retried by the retry policy. After the last retry the task fails with
    `NODE_UNREACHABLE`."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotInThisProcess:
    """The agent is attached to another process of this node. The other processes are notified."""


DeliveryOutcome: TypeAlias = Delivered | Rejected | RetryLater | NotInThisProcess


class Delivery(Protocol):
    """The part of a connector that delivers tasks to its agents. An exception counts as `RetryLater`."""

    def deliver(self, task: Task) -> Awaitable[DeliveryOutcome]: ...

    def cancel(self, task: Task) -> Awaitable[bool]:
        """Tell the agent to stop; the task has ended already. False if the agent is attached to another
        process, which is then notified."""
        ...


class Reply(Protocol):
    """The part of a protocol that reports on a task to its requester. After an exception the call is
    retried."""

    def progress(self, task: Task, content: Mapping[str, Any]) -> Awaitable[None]:
        """Send a progress message. Some may be lost when a process is killed."""
        ...

    def answer(self, task: Task) -> Awaitable[None]:
        """Send the answer, which is `task.answer`. `task.asked` differs for each time that the request was
        repeated."""
        ...


class Watcher(Protocol):
    """Shows people the state of tasks."""

    def show(self, task: Task) -> Awaitable[None]:
        """Show the state of a task. States may be skipped, and a state may be shown twice."""
        ...

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        """Show a progress message of the agent. Some may be lost when a process is killed."""
        ...
