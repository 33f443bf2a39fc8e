"""What an agent is doing, and the steps from one to the other.

Agent federation 1.0.0, appendix A. Its picture leaves `recover` hanging between Error and Shutdown: here an
agent that recovers is idle again. The agents of this node are held to the table. Of agents elsewhere their
nodes' word is taken, even if it skips a step.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class AgentStatus(StrEnum):
    INITIAL = "initial"
    """Not registered yet. It is never sent."""
    RUNNING = "running"
    """Nobody gets here by the table: an agent may say it of itself, and counts as idle."""
    IDLE = "idle"
    BUSY = "busy"
    ERROR = "error"
    SHUTDOWN = "shutdown"

    @property
    def is_available(self) -> bool:
        """Whether it would begin with a task at once."""
        return self in _AVAILABLE


class StatusInput(StrEnum):
    REGISTER = "register"
    START = "start"
    """Of a task."""
    COMPLETE = "complete"
    """A task has ended, however."""
    ERROR = "error"
    """It is the agent that failed, not what it was given to do."""
    RECOVER = "recover"
    SHUTDOWN = "shutdown"


_AVAILABLE: Final = frozenset({AgentStatus.RUNNING, AgentStatus.IDLE})
WIRE_STATUSES: Final = frozenset(AgentStatus) - {AgentStatus.INITIAL}
"""What may be said of an agent."""

# What is not in it does not happen to an agent of this node.
TRANSITIONS: Final[Mapping[tuple[AgentStatus, StatusInput], AgentStatus]] = {
    (AgentStatus.INITIAL, StatusInput.REGISTER): AgentStatus.IDLE,
    (AgentStatus.INITIAL, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.RUNNING, StatusInput.START): AgentStatus.BUSY,
    (AgentStatus.RUNNING, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.IDLE, StatusInput.START): AgentStatus.BUSY,
    (AgentStatus.IDLE, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.BUSY, StatusInput.COMPLETE): AgentStatus.IDLE,
    (AgentStatus.BUSY, StatusInput.ERROR): AgentStatus.ERROR,
    (AgentStatus.BUSY, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.ERROR, StatusInput.RECOVER): AgentStatus.IDLE,
    (AgentStatus.ERROR, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
    (AgentStatus.SHUTDOWN, StatusInput.SHUTDOWN): AgentStatus.SHUTDOWN,
}


def next_status(status: AgentStatus, message: StatusInput) -> AgentStatus | None:
    """None where the table has no such step: the status stays, and whoever asked for it is told."""
    return TRANSITIONS.get((status, message))


def read_status(text: object) -> AgentStatus | None:
    """A status as it is said of an agent; None for anything else, `initial` included."""
    if not isinstance(text, str) or text not in WIRE_STATUSES:
        return None
    return AgentStatus(text)
