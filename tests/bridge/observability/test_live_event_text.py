"""Live events as lines."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.agents.agent import Agent, AgentStatus
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.live import to_live_event
from bridge.observability.live_event import agent_event, drop_event, progress_event, task_event
from bridge.observability.live_event_text import live_line, live_style
from bridge.tasks.answer import Answer, failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.task import State, Task
from tests.support.agents import NOW
from tests.support.tasks import request

AT = "01:46:40"
AGENT = Agent("worker", "kitchen", "cis", "claude", ("coding", "tests"), AgentStatus.IDLE, None, NOW, NOW, NOW)
GONE = AGENT._replace(gone_at=NOW, gone_reason="timeout")
BUSY = AGENT._replace(status=AgentStatus.BUSY, current_task="t-1")
TASK = Task(request(), NOW, NOW + 1)
BUSY_ERROR = TaskError(ErrorCode.AGENT_BUSY, "It is busy.")


def _said(event: Any) -> dict[str, Any]:
    return dict(event.data)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (
            _said(agent_event(None, AGENT, NOW)),
            f"{AT}  agent     worker@kitchen is online: claude, idle; capabilities: coding, tests",
        ),
        (_said(agent_event(AGENT, BUSY, NOW)), f"{AT}  agent     worker@kitchen is busy with t-1"),
        (_said(agent_event(AGENT, GONE, NOW)), f"{AT}  agent     worker@kitchen is offline: timeout"),
        (_said(agent_event(GONE, None, NOW)), f"{AT}  agent     worker@kitchen was removed"),
        (
            _said(agent_event(AGENT, AGENT._replace(runtime="kimi"), NOW)),
            f"{AT}  agent     worker@kitchen has changed: kimi, idle",
        ),
        (_said(task_event(TASK, NOW)), f"{AT}  task      req-1@living  coordinator@living → worker@here  received"),
        (
            _said(task_event(replace(TASK, state=State.FAILED, answer=failure(BUSY_ERROR)), NOW)),
            f"{AT}  task      req-1@living  coordinator@living → worker@here  failed: AGENT_BUSY",
        ),
        (
            _said(task_event(replace(TASK, state=State.FAILED, answer=Answer(False, "", 3)), NOW)),
            f"{AT}  task      req-1@living  coordinator@living → worker@here  failed: exit code 3",
        ),
        (
            _said(progress_event(TASK, {"message": "halfway", "percent": 50}, NOW)),
            f"{AT}  progress  req-1@living  worker@here: 50 % halfway",
        ),
        (
            _said(drop_event(TASK, DroppedMessage("result", "it is over"), NOW)),
            f"{AT}  dropped   result of req-1@living was rejected: it is over",
        ),
        (
            _said(drop_event(None, DroppedMessage("result", "none"), NOW)),
            f"{AT}  dropped   result of an unknown task was rejected: none",
        ),
        (
            _said(
                to_live_event(EventRecord("living", "io.cis.agent.task.request", Verdict.TAKEN, subject="req-1"), NOW)
            ),
            f"{AT}  cis       ← living  task.request req-1: taken",
        ),
        (
            _said(
                to_live_event(EventRecord(None, "io.cis.agent.registered", Verdict.SENT, subject="worker@here"), NOW)
            ),
            f"{AT}  cis       → all peers  registered worker@here: sent",
        ),
        (
            _said(to_live_event(EventRecord(None, "", Verdict.TOO_LARGE, detail="8 MiB"), NOW)),
            f"{AT}  cis       ← unknown peer  unknown type: too large (8 MiB)",
        ),
        ({"type": "left_out", "count": 7}, "          … 7 events were skipped, because they came too fast"),
    ],
)
def test_lines(data: dict[str, Any], line: str) -> None:
    """Time, type, names, description."""
    assert live_line(data) == line


def test_control_characters_are_removed() -> None:
    """Peers choose names of agents and events."""
    act = EventRecord("living", "\x1b[31mred\nsecond line", Verdict.KEPT, subject="\u202egnp")
    line = live_line(_said(to_live_event(act, NOW)))
    assert line.isprintable()
    assert "\\x1b[31mred\\x0asecond line" in line


def test_unknown_types_are_shown_raw() -> None:
    """The command line may be older than the node."""
    assert "strange" in live_line({"type": "strange", "at": NOW})
    assert live_line({}).startswith("–")


def test_styles() -> None:
    """Only for success and failure."""
    assert live_style(_said(agent_event(None, AGENT, NOW))) == "green"
    assert live_style(_said(task_event(replace(TASK, state=State.TIMED_OUT), NOW))) == "red"
    assert live_style(_said(to_live_event(EventRecord("a", "b", Verdict.FORBIDDEN), NOW))) == "yellow"
    assert live_style(_said(to_live_event(EventRecord("a", "b", Verdict.SENT), NOW))) == "dim"
    assert live_style({"type": "left_out"}) == "yellow"
    assert live_style(_said(progress_event(TASK, {}, NOW))) == ""
