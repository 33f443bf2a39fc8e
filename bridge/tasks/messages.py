"""The messages that a task's state machine receives, and the effects that it returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from bridge.tasks.answer import Answer
from bridge.tasks.errors import TaskError
from bridge.tasks.request import Origin

# ---- messages ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accept:
    """The agent has room for the task: deliver it."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """The agent is busy and has a queue."""


@dataclass(frozen=True, slots=True)
class Start:
    """A runner is about to start the task. `lease_until` is None for a runner that ends with its process."""

    runner: str
    lease_until: int | None = None


@dataclass(frozen=True, slots=True)
class Renew:
    """The runner still works on the task."""

    runner: str
    lease_until: int


@dataclass(frozen=True, slots=True)
class Progress:
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of the agent or its node."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Error:
    """The task cannot be done."""

    error: TaskError


@dataclass(frozen=True, slots=True)
class Cancel:
    by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline may have passed."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The target's node cannot be reached, and no further attempt is made."""

    reason: str


@dataclass(frozen=True, slots=True)
class AgentUnavailable:
    """The agent is offline or was removed; the error says why."""

    error: TaskError


@dataclass(frozen=True, slots=True)
class RunnerLost:
    """The process that ran the task, or that delivered it, has ended."""


@dataclass(frozen=True, slots=True)
class Resubmit:
    """The requester sent the request again with the same id."""

    origin: Origin


Message: TypeAlias = (
    Accept
    | Enqueue
    | Start
    | Renew
    | Progress
    | Result
    | Error
    | Cancel
    | Tick
    | Unreachable
    | AgentUnavailable
    | RunnerLost
    | Resubmit
)

# ---- effects -----------------------------------------------------------------------------------------


class Due(StrEnum):
    """Effects that are stored with the task until they are done, so that they survive a kill. Each may be
    performed more than once."""

    DELIVER = "deliver"
    """Deliver the task to the agent or to its node."""
    CANCEL = "cancel"
    """Tell the agent to stop."""
    ANSWER = "answer"
    """Send the answer to the requester."""
    SHOW = "show"
    """Update what people see of the task."""


@dataclass(frozen=True, slots=True)
class SendProgress:
    """Forward a progress message to the requester."""

    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AdvanceQueue:
    """The agent has room: start its next queued task."""


@dataclass(frozen=True, slots=True)
class DroppedMessage:
    """The message has no effect and is written to the audit log."""

    message: str
    reason: str


Effect: TypeAlias = SendProgress | AdvanceQueue | DroppedMessage
