"""Decides whether an agent of this node gets a task now, gets it queued, or is busy.

Agent federation 1.0.0: `AGENT_BUSY`, "try again later or use another agent", with `current_task`. By
configuration an agent may also have a queue.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.agents.agent import Agent, AgentStatus
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import Accept, Enqueue, Error

MAX_QUEUE_LENGTH: Final = 10_000


@dataclass(frozen=True, slots=True)
class AgentSettings:
    parallel: int | None = 1
    """Tasks that the agent works on at the same time; None: any number."""
    queue_length: int = 0
    """Tasks that may be queued for the agent. With 0 it refuses tasks with `AGENT_BUSY` while it is busy."""

    @property
    def max_queue_length(self) -> int:
        return min(self.queue_length, MAX_QUEUE_LENGTH)


@dataclass(frozen=True, slots=True)
class Load:
    """The tasks of an agent: how many were delivered or are running, how many are queued, and the id of one
    of the former."""

    active: int = 0
    queued: int = 0
    current_task: str | None = None


Admission: TypeAlias = Accept | Enqueue | Error


def admit(load: Load, settings: AgentSettings, status: AgentStatus) -> Admission:
    """Decide on a new task. Queued tasks go first."""
    if status is AgentStatus.ERROR:
        return Error(TaskError(ErrorCode.AGENT_BUSY, "The agent has failed and has not recovered yet."))
    if settings.parallel is None:
        return Accept()
    if has_room(load, settings) and not load.queued:
        return Accept()
    if load.queued < settings.max_queue_length:
        return Enqueue()
    metadata = {} if load.current_task is None else {"current_task": load.current_task}
    if load.queued:
        reason = f"The agent is busy, and its queue is full with {load.queued} tasks."
    else:
        reason = "The agent is busy with another task."
    return Error(TaskError(ErrorCode.AGENT_BUSY, reason, metadata))


def has_room(load: Load, settings: AgentSettings) -> bool:
    """Whether the agent may get its first queued task."""
    return settings.parallel is None or load.active < settings.parallel


SettingsOf: TypeAlias = Callable[[Agent], AgentSettings]
"""Returns the settings of an agent of this node."""
