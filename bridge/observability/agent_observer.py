"""Counts, logs and audits the steps of tasks, and passes them to the live feed."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from prometheus_client import Counter, Histogram

from bridge.observability.live_feed import LiveFeed
from bridge.observability.metrics import AgentMetrics
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.request import key_text
from bridge.tasks.task import State, Task
from federation.peers import audit
from federation.peers.audit import AuditEntry, AuditOutcome, Direction, Identifiers
from federation.peers.audit_trail import AuditTrail

log = structlog.get_logger("palaver.agents")

OTHER_FAILURE: Final = "other"
REJECTED: Final = "task"
"""The audit act of a task message that arrived too late or from the wrong sender."""


class AgentObserver:
    def __init__(self, metrics: AgentMetrics, feed: LiveFeed, trail: AuditTrail, *, now_ms: Callable[[], int]) -> None:
        self._metrics = metrics
        self._feed = feed
        self._trail = trail
        self._now_ms = now_ms
        # Resolved metric children: looking one up by its labels takes longer than counting.
        self._steps: dict[State, Counter] = {}
        self._durations: dict[tuple[State, bool], Histogram] = {}

    def changed(self, task: Task) -> None:
        steps = self._steps.get(task.state)
        if steps is None:
            steps = self._steps[task.state] = self._metrics.steps.labels(task.state.value)
        steps.inc()
        if task.state.is_final and task.finished_at is not None:
            self._ended(task, task.finished_at)
        self._feed.changed(task)

    def dropped(self, task: Task | None, dropped: DroppedMessage) -> None:
        self._metrics.dropped.inc()
        key = None if task is None else str(task.key)
        log.info("A message about a task was rejected.", task=key, what=dropped.message, why=dropped.reason)
        self._audit(task, dropped)
        self._feed.dropped(task, dropped)

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self._feed.progress(task, content)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)

    def _audit(self, task: Task | None, dropped: DroppedMessage) -> None:
        """ "A late answer is audited and dropped". Messages of local agents are only logged; the sender of a
        message about an unknown task is unknown."""
        if task is None or not task.elsewhere:
            return
        request = task.request
        named = Identifiers(None, None, audit.truncate(key_text(request.key)))
        detail = audit.truncate_detail(f"{dropped.message} of {request.to_address} was rejected: {dropped.reason}")
        peer = audit.truncate(request.to_address.node_id)
        self._trail.record(
            AuditEntry(self._now_ms(), peer, Direction.IN, REJECTED, AuditOutcome.REFUSED, named, detail)
        )

    def _ended(self, task: Task, at: int) -> None:
        durations = self._durations.get((task.state, task.elsewhere))
        if durations is None:
            where = "elsewhere" if task.elsewhere else "here"
            durations = self._metrics.durations.labels(task.state.value, where)
            self._durations[task.state, task.elsewhere] = durations
        durations.observe(max(0, at - task.received_at) / 1000)
        if task.state is not State.DONE:
            code = None if task.answer is None else task.answer.error_code
            self._metrics.failures.labels(code.value if code is not None else OTHER_FAILURE).inc()
