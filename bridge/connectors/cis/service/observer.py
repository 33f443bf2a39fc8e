"""Records agent events in the metrics, the log, the audit and the live view.

Heartbeats would fill the audit, so only the first one of each peer and verdict after a silence is written.
"""

from collections.abc import Callable, Collection
from typing import Final

import structlog
from cachetools import LRUCache
from prometheus_client import Counter

from bridge.connectors.cis.audit import audit_entry
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.live import to_live_event
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.protocol.events import EVENTS, Heartbeat
from bridge.observability.live_feed import LiveFeed
from bridge.observability.report import Report
from federation.peers.audit_trail import AuditTrail

log = structlog.get_logger("palaver.agents")

OTHER: Final = "other"
KINDS: Final = {type_: type_.rpartition("io.cis.agent.")[2] for type_ in EVENTS}
REFUSED: Final[Collection[Verdict]] = frozenset({Verdict.INVALID, Verdict.FORBIDDEN, Verdict.TOO_LARGE, Verdict.FAILED})
SILENCE_MS: Final = 120_000
MAX_NODES: Final = 10_000


class CisObserver:
    def __init__(
        self, metrics: CisMetrics, trail: AuditTrail, feed: LiveFeed, report: Report, *, now_ms: Callable[[], int]
    ) -> None:
        self._metrics = metrics
        self._trail = trail
        self._feed = feed
        self._report = report
        self._now_ms = now_ms
        # Cached because `labels` takes longer than the increment.
        self._counters: dict[tuple[str, Verdict], Counter] = {}
        self._heartbeats: LRUCache[tuple[str | None, Verdict], int] = LRUCache(MAX_NODES)

    def record(self, record: EventRecord) -> None:
        kind, verdict = KINDS.get(record.type, OTHER), record.verdict
        counter = self._counters.get((kind, verdict))
        if counter is None:
            counter = self._counters[kind, verdict] = self._metrics.events.labels(kind, verdict.value)
        counter.inc()
        if verdict in REFUSED:
            text = "An event could not be sent." if record.is_outgoing else "An event was refused."
            type_ = record.type[:100]
            log.info(text, peer=record.peer, type=type_, verdict=verdict.value, reason=record.detail)
        now_ms = self._now_ms()
        if record.type != Heartbeat.TYPE or self._is_first(record, now_ms):
            self._trail.record(audit_entry(record, now_ms))
        self._feed.show(lambda now_ms: to_live_event(record, now_ms))

    def report_problem(self, sentence: str, error: BaseException | None) -> None:
        self._report(sentence, error)

    def _is_first(self, record: EventRecord, now_ms: int) -> bool:
        """Return whether this is the first heartbeat of its peer and verdict after a silence."""
        key = record.peer, record.verdict
        last = self._heartbeats.get(key)
        self._heartbeats[key] = now_ms
        return last is None or now_ms - last > SILENCE_MS
