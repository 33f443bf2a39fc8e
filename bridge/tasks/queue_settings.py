"""Whether an agent of this node takes a task now, lets it wait, or is busy.

Agent federation 1.0.0: `AGENT_BUSY`, "try again later or use another agent", with `current_task`. An agent
may also keep a queue, by its setting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.agents.agent import Agent, AgentStatus
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import Accept, Enqueue, Error

MOST_WAITING: Final = 10_000


@dataclass(frozen=True, slots=True)
class AgentSettings:
    at_once: int | None = 1
    """How many tasks it works on at the same time; None: as many as come."""
    waiting: int = 0
    """How many more may wait for it. With none it answers `AGENT_BUSY`."""

    @property
    def most_waiting(self) -> int:
        return min(self.waiting, MOST_WAITING)


@dataclass(frozen=True, slots=True)
class Load:
    """What an agent has: tasks that were given to it, tasks that wait, and one of the former."""

    active: int = 0
    waiting: int = 0
    current_task: str | None = None


Admission: TypeAlias = Accept | Enqueue | Error


def admit(load: Load, settings: AgentSettings, status: AgentStatus) -> Admission:
    """What becomes of the next task. Those that wait have come before it."""
    if status is AgentStatus.ERROR:
        return Error(TaskError(ErrorCode.AGENT_BUSY, "The agent has failed and has not recovered yet."))
    if settings.at_once is None:
        return Accept()
    if has_room(load, settings) and not load.waiting:
        return Accept()
    if load.waiting < settings.most_waiting:
        return Enqueue()
    metadata = {} if load.current_task is None else {"current_task": load.current_task}
    if load.waiting:
        reason = f"The agent is busy, and {load.waiting} tasks wait for it already."
    else:
        reason = "The agent is busy with another task."
    return Error(TaskError(ErrorCode.AGENT_BUSY, reason, metadata))


def has_room(load: Load, settings: AgentSettings) -> bool:
    """Whether the first that waits may go."""
    return settings.at_once is None or load.active < settings.at_once


SettingsOf: TypeAlias = Callable[[Agent], AgentSettings]
"""What an agent of this node has been set to."""
