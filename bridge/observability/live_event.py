"""What happens on a node, for those who watch it: agents, tasks and reports on the way. Connectors add kinds
of their own.

What is told fits into a line or two: the content of requests, answers and reports is not in it.
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

LONGEST: Final = 1_000
"""Characters of one text in it."""


class LiveType(StrEnum):
    AGENT = "agent"
    TASK = "task"
    PROGRESS = "progress"
    DROPPED = "dropped"
    """What was said of a task and not taken."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """`type` is a `LiveType`, or one of a connector. It is found by `agents`, `nodes` and `tasks`, each in
    all its names; `said` is JSON."""

    type: str
    said: Mapping[str, Any]
    agents: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LiveFilter:
    """What is empty is not looked at. An agent may be named by its id alone, a task by its key, or by the id
    of its request or its own."""

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


def of_agent(before: Agent | None, after: Agent | None, at: int) -> LiveEvent | None:
    """None when nothing has changed but the time at which it was heard from."""
    what = _what_changed(before, after)
    agent = after or before
    if what is None or agent is None:
        return None
    said = {
        "what": what,
        "agent": str(agent.address),
        "runtime": agent.runtime,
        "status": agent.status.value,
        "current_task": agent.current_task,
        "capabilities": list(agent.capabilities),
        "reason": agent.gone_reason,
    }
    return live_event(LiveType.AGENT, at, said, agents=[str(agent.address)])


def _what_changed(before: Agent | None, after: Agent | None) -> str | None:
    if after is None:
        return "forgotten"
    if not after.is_online:
        return "went" if before is None or before.is_online else None
    if before is None or not before.is_online:
        return "came"
    if (before.status, before.current_task) != (after.status, after.current_task):
        return "status"
    is_same = (before.connector, before.runtime, before.capabilities) == (
        after.connector,
        after.runtime,
        after.capabilities,
    )
    return None if is_same else "changed"


# ---- tasks -------------------------------------------------------------------------------------------


def of_task(task: Task, at: int) -> LiveEvent:
    answer = task.answer
    said = {
        "what": task.state.value,
        **_names(task),
        "success": None if answer is None else answer.success,
        "exit_code": None if answer is None else answer.exit_code,
        "error_code": None if answer is None or answer.error_code is None else answer.error_code.value,
    }
    return _of_task(LiveType.TASK, task, at, said)


def of_progress(task: Task, content: Mapping[str, Any], at: int) -> LiveEvent:
    return _of_task(LiveType.PROGRESS, task, at, {**_names(task), "text": said_in(content)})


def of_drop(task: Task | None, dropped: DroppedMessage, at: int) -> LiveEvent:
    said = {"what": dropped.message, "why": dropped.reason}
    if task is None:
        return live_event(LiveType.DROPPED, at, {**said, "task": None})
    return _of_task(LiveType.DROPPED, task, at, {**said, **_names(task)})


def said_in(content: Mapping[str, Any]) -> str:
    """What an agent reports, as far as it is meant for reading."""
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


def _of_task(type_: LiveType, task: Task, at: int, said: Mapping[str, Any]) -> LiveEvent:
    request = task.request
    return live_event(
        type_,
        at,
        said,
        agents=[str(request.from_address), str(request.to_address)],
        nodes=[request.key.node_id],
        tasks=[key_text(request.key), request.key.request_id, request.task_id],
    )


# ---- each of them ------------------------------------------------------------------------------------


def live_event(
    type_: str,
    at: int,
    said: Mapping[str, Any],
    *,
    agents: list[str] | None = None,
    nodes: list[str] | None = None,
    tasks: list[str] | None = None,
) -> LiveEvent:
    """Of texts that may be long. Agents are addresses, and are also found by their ids and nodes."""
    split = [one.partition("@") for one in agents or []]
    return LiveEvent(
        type_,
        {"at": at, "type": str(type_), **{name: _cut(value) for name, value in said.items()}},
        frozenset([*(agents or []), *(agent_id for agent_id, _, _ in split)]),
        frozenset([*(nodes or []), *(node_id for _, _, node_id in split)]),
        frozenset(tasks or []),
    )


def _cut(value: Any) -> Any:
    return value[:LONGEST] if isinstance(value, str) else value
