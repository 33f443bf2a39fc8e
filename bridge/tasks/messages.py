"""What happens to a task, and what is to be done about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from bridge.tasks.answer import Answer
from bridge.tasks.errors import TaskError
from bridge.tasks.request import Origin

# ---- what happens ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accept:
    """The agent may have it now."""


@dataclass(frozen=True, slots=True)
class Enqueue:
    """The agent is busy, and lets tasks wait."""


@dataclass(frozen=True, slots=True)
class Start:
    """It is about to be run. `lease_until` is None for a runner that lives and dies with its desk."""

    runner: str
    lease_until: int | None = None


@dataclass(frozen=True, slots=True)
class Renew:
    """The runner is still at it."""

    runner: str
    lease_until: int


@dataclass(frozen=True, slots=True)
class Progress:
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What the agent, or its node, answers."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Error:
    """It cannot be done."""

    error: TaskError


@dataclass(frozen=True, slots=True)
class Cancel:
    by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The node to which it has to go cannot be reached, for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class AgentGone:
    """The agent is no longer there; the error says why."""

    error: TaskError


@dataclass(frozen=True, slots=True)
class RunnerLost:
    """The process in which it ran, or from which it was brought to the agent, is no more."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """It was asked for a second time under the same id."""

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
    | AgentGone
    | RunnerLost
    | AskAgain
)

# ---- what to do --------------------------------------------------------------------------------------


class Due(StrEnum):
    """What is remembered with the task until it is done: a kill between the two changes nothing. So each may
    be done more than once."""

    DELIVER = "deliver"
    """Bring it to the agent, or to its node."""
    CANCEL = "cancel"
    """Tell the agent to stop."""
    ANSWER = "answer"
    """Tell whoever asked what it came to."""
    SHOW = "show"
    """Let people see what has become of it."""


@dataclass(frozen=True, slots=True)
class SendProgress:
    """To whoever asked."""

    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Freed:
    """The agent has room for the next one."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """What came is not taken, and is written into the audit."""

    what: str
    why: str


Effect: TypeAlias = SendProgress | Freed | Dropped
