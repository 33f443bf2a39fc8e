"""What happens to agents is counted, logged and passed on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry

from bridge.agent_metrics import AgentMetrics
from bridge.connectors.cis.act import Act, Verdict
from bridge.connectors.cis.events import Heartbeat
from bridge.service.agent_observer import AgentObserver
from bridge.task import State, Task
from bridge.task_answer import failure
from bridge.task_error import ErrorCode, TaskError
from bridge.task_messages import Dropped
from tests.support.desk import request


class Seen:
    """Satisfies `Onlooker`."""

    def __init__(self) -> None:
        self.all: list[object] = []

    def changed(self, task: Task) -> None:
        self.all.append(task)

    def dropped(self, task: Task | None, dropped: Dropped) -> None:
        self.all.append(dropped)

    def acted(self, act: Act) -> None:
        self.all.append(act)

    def heard(self, task: Task, content: Mapping[str, Any]) -> None:
        self.all.append(content)


def test_tasks_by_how_they_ended() -> None:
    """With the time they took, and the code of what failed."""
    registry, seen = CollectorRegistry(), Seen()
    observer = AgentObserver(AgentMetrics(registry), [seen])
    task = Task(request(), 1_000, 9_000)
    failed = replace(
        task,
        state=State.FAILED,
        finished_at=3_000,
        answer=failure(TaskError(ErrorCode.AGENT_BUSY, "It is busy.")),
    )
    dropped = Dropped("answer", "it came too late")
    observer.changed(task)
    observer.changed(failed)
    observer.dropped(None, dropped)
    observer.heard(task, {"percent": 50})
    assert registry.get_sample_value("palaver_task_steps_total", {"state": "received"}) == 1
    assert registry.get_sample_value("palaver_task_failures_total", {"code": "AGENT_BUSY"}) == 1
    here = {"outcome": "failed", "where": "here"}
    assert registry.get_sample_value("palaver_task_seconds_sum", here) == 2
    assert registry.get_sample_value("palaver_task_messages_dropped_total") == 1
    assert seen.all == [task, failed, dropped, {"percent": 50}]


def test_no_label_is_taken_from_a_peer() -> None:
    """A type that nobody knows is counted with all others of its kind."""
    registry, seen = CollectorRegistry(), Seen()
    observer = AgentObserver(AgentMetrics(registry), [seen])
    acts = [
        Act("a.local", Heartbeat.TYPE, Verdict.TAKEN),
        Act("a.local", "io.cis.agent.flood-1", Verdict.KEPT),
        Act(None, "x" * 1_000, Verdict.FORBIDDEN, detail="The sender is not known."),
    ]
    for act in acts:
        observer.acted(act)
    for type_, verdict in (("heartbeat", "taken"), ("other", "kept"), ("other", "forbidden")):
        labels = {"type": type_, "verdict": verdict}
        assert registry.get_sample_value("palaver_cis_events_total", labels) == 1
    assert seen.all == acts
