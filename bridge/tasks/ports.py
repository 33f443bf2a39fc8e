"""What the desk needs of connectors: to bring tasks to agents, and answers to whoever asked.

Everything here may be called more than once for the same task, because a process may be killed between doing
it and remembering that it did.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from bridge.tasks.errors import TaskError
from bridge.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Delivered:
    """The agent has it, or will have it whatever happens to this process: it lies in a durable queue, or
    where the agent fetches it. An agent of this node has still to begin it at the desk."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """It will not be taken; tried again it would be the same."""

    error: TaskError


@dataclass(frozen=True, slots=True)
class NotNow:
    """To be tried again by the retry policy; after that the task fails with `NODE_UNREACHABLE`."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotHere:
    """The agent is attached to another process of this node, which is told."""


DeliveryOutcome: TypeAlias = Delivered | Rejected | NotNow | NotHere


class Delivery(Protocol):
    """Of one connector: it brings tasks to its agents. What it raises counts as `NotNow`."""

    def deliver(self, task: Task) -> Awaitable[DeliveryOutcome]: ...

    def cancel(self, task: Task) -> Awaitable[bool]:
        """Have an agent stop, whether it has begun or not; the task has ended already. False: the agent is
        attached to another process, which is told."""
        ...


class Reply(Protocol):
    """Of one protocol: it brings back what became of a task that was asked for in it. What it raises makes it
    be tried again."""

    def progress(self, task: Task, content: Mapping[str, Any]) -> Awaitable[None]:
        """Some of this may be lost by a kill."""
        ...

    def answer(self, task: Task) -> Awaitable[None]:
        """`task.answer` is there. `task.asked` is another number whenever it was asked for again."""
        ...


class Watcher(Protocol):
    """Shows people what becomes of tasks."""

    def show(self, task: Task) -> Awaitable[None]:
        """It has got into a state. States may be left out, and the same one may come twice."""
        ...

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        """What the agent says of its work. Some of this may be lost by a kill."""
        ...
