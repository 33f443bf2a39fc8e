"""Live events."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bridge.agents.agent import Agent, AgentStatus
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.live import to_live_event
from bridge.observability.live_event import (
    MAX_TEXT,
    LiveEvent,
    LiveFilter,
    LiveType,
    agent_event,
    drop_event,
    progress_event,
    task_event,
)
from bridge.tasks.answer import failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.task import State, Task
from tests.support.agents import NOW
from tests.support.tasks import request

AGENT = Agent("worker", "kitchen", "cis", "claude", ("coding",), AgentStatus.IDLE, None, NOW, NOW, NOW)
TASK = Task(request(), NOW, NOW + 1)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (None, AGENT, "came"),
        (AGENT._replace(gone_at=NOW, gone_reason="timeout"), AGENT, "came"),
        (AGENT, AGENT._replace(status=AgentStatus.BUSY, current_task="t"), "status"),
        (AGENT, AGENT._replace(gone_at=NOW, gone_reason="timeout"), "went"),
        (AGENT._replace(gone_at=NOW, gone_reason="timeout"), None, "forgotten"),
        (AGENT, AGENT._replace(runtime="kimi"), "changed"),
        (AGENT, AGENT._replace(last_seen=NOW + 1, sent_at=NOW + 1), None),
        (
            AGENT._replace(gone_at=NOW, gone_reason="a"),
            AGENT._replace(gone_at=NOW, gone_reason="a", sent_at=NOW + 1),
            None,
        ),
        (None, None, None),
    ],
)
def test_agent_events(before: Agent | None, after: Agent | None, what: str | None) -> None:
    """Online, offline or changed; a heartbeat alone is no event."""
    event = agent_event(before, after, NOW)
    assert (event and event.data["what"]) == what
    if event is not None:
        assert event.data["agent"] == "worker@kitchen"
        assert event.agents == {"worker", "worker@kitchen"}
        assert event.nodes == {"kitchen"}


def test_tasks_match_by_all_names() -> None:
    """Key, request id, own id; both agents; the requesting node and the agents' nodes."""
    event = task_event(TASK, NOW)
    assert event.tasks == {"req-1@living", "req-1", "task-req-1"}
    assert {"worker", "worker@here", "coordinator", "coordinator@living"} == event.agents
    assert event.nodes == {"living", "here"}
    assert (event.data["what"], event.data["exit_code"]) == ("received", None)
    failed = replace(TASK, state=State.FAILED, answer=failure(TaskError(ErrorCode.AGENT_BUSY, "It is busy.")))
    assert (task_event(failed, NOW).data["error_code"], task_event(failed, NOW).data["success"]) == (
        "AGENT_BUSY",
        False,
    )


def test_progress_and_drops() -> None:
    """The readable part of a report, and the reason of a rejection, also of unknown tasks."""
    assert progress_event(TASK, {"message": "halfway"}, NOW).data["text"] == "halfway"
    assert drop_event(TASK, DroppedMessage("result", "it is over"), NOW).data["why"] == "it is over"
    unknown = drop_event(None, DroppedMessage("result", "no such task is known"), NOW)
    assert (unknown.data["task"], unknown.agents) == (None, frozenset())


def test_cis_events_match_by_all_names() -> None:
    """Sender, subject, peer and request."""
    act = EventRecord(
        "living", "io.cis.agent.registered", Verdict.TAKEN, "@worker:living", "!r", "worker-2@living", None
    )
    event = to_live_event(act, NOW)
    assert {"worker", "worker@living", "worker-2"} <= event.agents
    assert (event.nodes, event.data["direction"]) == ({"living"}, "in")
    sent = to_live_event(EventRecord(None, "io.cis.agent.task.request", Verdict.SENT, subject="req-1"), NOW)
    assert (sent.data["direction"], sent.tasks, sent.nodes) == ("out", {"req-1"}, frozenset())


@pytest.mark.parametrize(
    ("wanted", "is_wanted"),
    [
        ({}, True),
        ({"types": {LiveType.TASK}}, True),
        ({"types": {"cis"}}, False),
        ({"agents": {"worker"}}, True),
        ({"agents": {"worker@there"}}, False),
        ({"agents": {"nobody", "coordinator@living"}}, True),
        ({"nodes": {"here"}}, True),
        ({"nodes": {"elsewhere"}}, False),
        ({"tasks": {"req-1"}}, True),
        ({"tasks": {"req-1@here"}}, False),
        ({"tasks": {"req-1"}, "nodes": {"elsewhere"}}, False),
    ],
)
def test_filter(wanted: dict[str, Any], is_wanted: bool) -> None:
    """One of the given names of each kind has to match."""
    chosen = LiveFilter(**{name: frozenset(values) for name, values in wanted.items()})
    assert chosen.wants(task_event(TASK, NOW)) is is_wanted


def test_long_texts_are_cut() -> None:
    """And every event is valid JSON."""
    long = "x" * 100_000
    events: list[LiveEvent | None] = [
        to_live_event(EventRecord(long, long, Verdict.INVALID, long, long, long, long), NOW),
        progress_event(TASK, {"message": long}, NOW),
        drop_event(TASK, DroppedMessage(long, long), NOW),
        agent_event(None, AGENT._replace(current_task=long, gone_reason=None), NOW),
    ]
    for event in events:
        assert event is not None
        assert len(json.dumps(event.data)) < 10 * MAX_TEXT
