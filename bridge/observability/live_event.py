"""The events of the live feed: agents, tasks, and their progress. Connectors add their own kinds.

An event fits into a line or two: it does not contain the contents of requests, answers and reports.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.agents.agent import Agent
from bridge.people.texts.task_texts import progress_text
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.request import key_text
from bridge.tasks.task import Task

MAX_TEXT: Final = 1_000
"""Characters of one text in an event."""


class LiveType(StrEnum):
    AGENT = "agent"
    TASK = "task"
    PROGRESS = "progress"
    DROPPED = "dropped"
    """A message about a task that was rejected."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """`type` is a `LiveType` or a connector's type. Filters match `agents`, `nodes` and `tasks`, each under
    all its names; `data` is JSON."""

    type: str
    data: Mapping[str, Any]
    agents: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveFilter:
    """An empty field matches everything. An agent may be given by its id alone, a task by its key, its
    request's id or its own id."""

    types: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()

    def wants(self, event: LiveEvent) -> bool:
        return (
            (not self.types or event.type in self.types)
            and (not self.agents or not self.agents.isdisjoint(event.agents))
            and (not self.nodes or not self.nodes.isdisjoint(event.nodes))
            and (not self.tasks or not self.tasks.isdisjoint(event.tasks))
        )


# ---- agents ------------------------------------------------------------------------------------------


def agent_event(before: Agent | None, after: Agent | None, at: int) -> LiveEvent | None:
    """None if nothing has changed but the time of the last heartbeat."""
    what = _what_changed(before, after)
    agent = after or before
    if what is None or agent is None:
        return None
    data = {
        "what": what,
        "agent": str(agent.address),
        "runtime": agent.runtime,
        "status": agent.status.value,
        "current_task": agent.current_task,
        "capabilities": list(agent.capabilities),
        "reason": agent.gone_reason,
    }
    return live_event(LiveType.AGENT, at, data, agents=[str(agent.address)])


def _what_changed(before: Agent | None, after: Agent | None) -> str | None:
    if after is None:
        return "forgotten"
    if not after.is_online:
        return "went" if before is None or before.is_online else None
    if before is None or not before.is_online:
        return "came"
    if (before.status, before.current_task) != (after.status, after.current_task):
        return "status"
    is_equal = (before.connector, before.runtime, before.capabilities) == (
        after.connector,
        after.runtime,
        after.capabilities,
    )
    return None if is_equal else "changed"


# ---- tasks -------------------------------------------------------------------------------------------


def task_event(task: Task, at: int) -> LiveEvent:
    answer = task.answer
    data = {
        "what": task.state.value,
        **_names(task),
        "success": None if answer is None else answer.success,
        "exit_code": None if answer is None else answer.exit_code,
        "error_code": None if answer is None or answer.error_code is None else answer.error_code.value,
    }
    return _task_live_event(LiveType.TASK, task, at, data)


def progress_event(task: Task, content: Mapping[str, Any], at: int) -> LiveEvent:
    return _task_live_event(LiveType.PROGRESS, task, at, {**_names(task), "text": progress_summary(content)})


def drop_event(task: Task | None, dropped: DroppedMessage, at: int) -> LiveEvent:
    data = {"what": dropped.message, "why": dropped.reason}
    if task is None:
        return live_event(LiveType.DROPPED, at, {**data, "task": None})
    return _task_live_event(LiveType.DROPPED, task, at, {**data, **_names(task)})


def progress_summary(content: Mapping[str, Any]) -> str:
    """The readable part of an agent's progress report."""
    text = progress_text(content)
    return "" if text is None else text.plain


def _names(task: Task) -> dict[str, Any]:
    request = task.request
    return {
        "task": key_text(request.key),
        "task_id": request.task_id,
        "from": str(request.from_address),
        "to": str(request.to_address),
    }


def _task_live_event(type_: LiveType, task: Task, at: int, data: Mapping[str, Any]) -> LiveEvent:
    request = task.request
    return live_event(
        type_,
        at,
        data,
        agents=[str(request.from_address), str(request.to_address)],
        nodes=[request.key.node_id],
        tasks=[key_text(request.key), request.key.request_id, request.task_id],
    )


# ---- common ------------------------------------------------------------------------------------------


def live_event(
    type_: str,
    at: int,
    data: Mapping[str, Any],
    *,
    agents: list[str] | None = None,
    nodes: list[str] | None = None,
    tasks: list[str] | None = None,
) -> LiveEvent:
    """Long texts are cut. Agents are addresses, and also match by their ids and nodes."""
    split = [one.partition("@") for one in agents or []]
    return LiveEvent(
        type_,
        {"at": at, "type": str(type_), **{name: _cut(value) for name, value in data.items()}},
        frozenset([*(agents or []), *(agent_id for agent_id, _, _ in split)]),
        frozenset([*(nodes or []), *(node_id for _, _, node_id in split)]),
        frozenset(tasks or []),
    )


def _cut(value: Any) -> Any:
    return value[:MAX_TEXT] if isinstance(value, str) else value
