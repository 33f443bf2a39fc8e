"""Counting, logging and auditing tasks."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from bridge.observability.agent_observer import AgentObserver
from bridge.observability.live_event import LiveFilter
from bridge.observability.live_feed import LiveFeed
from bridge.observability.metrics import AgentMetrics
from bridge.tasks.answer import failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.task import State, Task
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.federation.audit import AuditSearch
from tests.support.agents import NOW, Clock
from tests.support.tasks import request


@pytest.fixture
async def trail(database: Database) -> AsyncIterator[AuditTrail]:
    one = AuditTrail(database, now_ms=Clock())
    one.start()
    try:
        yield one
    finally:
        await one.close()


async def test_finished_tasks(trail: AuditTrail) -> None:
    """With their duration, and the error code of failures."""
    registry, feed = CollectorRegistry(), LiveFeed(now_ms=Clock())
    observer = AgentObserver(AgentMetrics(registry), feed, trail, now_ms=Clock())
    task = Task(request(), 1_000, 9_000)
    failed = replace(
        task, state=State.FAILED, finished_at=3_000, answer=failure(TaskError(ErrorCode.AGENT_BUSY, "It is busy."))
    )
    dropped = DroppedMessage("answer", "it came too late")
    with feed.listening(LiveFilter()) as listener:
        observer.changed(task)
        observer.changed(failed)
        observer.dropped(None, dropped)
        observer.progress(task, {"percent": 50})
        shown = [(await listener.next())["type"] for _ in range(4)]
    assert registry.get_sample_value("palaver_task_steps_total", {"state": "received"}) == 1
    assert registry.get_sample_value("palaver_task_failures_total", {"code": "AGENT_BUSY"}) == 1
    here = {"outcome": "failed", "where": "here"}
    assert registry.get_sample_value("palaver_task_seconds_sum", here) == 2
    assert registry.get_sample_value("palaver_task_messages_dropped_total") == 1
    assert shown == ["task", "task", "dropped", "progress"]


async def test_rejected_messages_are_audited(trail: AuditTrail) -> None:
    """Only those of agents on other nodes."""
    observer = AgentObserver(AgentMetrics(CollectorRegistry()), LiveFeed(now_ms=Clock()), trail, now_ms=Clock())
    task = Task(request(to="worker@there"), NOW, NOW + 1, elsewhere=True)
    observer.dropped(task, DroppedMessage("result", "the task is done already"))
    observer.dropped(replace(task, elsewhere=False), DroppedMessage("result", "the task is done already"))
    observer.dropped(None, DroppedMessage("result", "no such task is known"))
    observer.changed(task)
    await trail.close()
    [row] = await trail.search(AuditSearch(), 10)
    assert (row.peer, row.act, row.outcome, row.subject) == ("there", "task", "refused", "req-1@living")
    assert row.detail == "result of worker@there was rejected: the task is done already"
