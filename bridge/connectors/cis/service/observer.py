"""Counts, logs and audits what this node and its peers do to each other, and shows it to those who watch.

Heartbeats would fill the audit, so of each peer only the first after a silence is written: that it is there
again, or is refused.
"""

from collections.abc import Callable, Collection
from typing import Final

import structlog
from cachetools import LRUCache
from prometheus_client import Counter

from bridge.connectors.cis.acts import Act, Verdict
from bridge.connectors.cis.audit import entry_of
from bridge.connectors.cis.live import of_act
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.protocol.events import EVENTS, Heartbeat
from bridge.observability.live_feed import LiveFeed
from bridge.observability.report import Report
from federation.peers.audit_trail import AuditTrail

log = structlog.get_logger("palaver.agents")

OTHER: Final = "other"
KINDS: Final = {type_: type_.rpartition("io.cis.agent.")[2] for type_ in EVENTS}
REFUSED: Final[Collection[Verdict]] = frozenset(
    {Verdict.INVALID, Verdict.FORBIDDEN, Verdict.TOO_LARGE, Verdict.FAILED}
)
SILENCE_MS: Final = 120_000
MOST_NODES: Final = 10_000


class CisObserver:
    def __init__(
        self,
        metrics: CisMetrics,
        trail: AuditTrail,
        feed: LiveFeed,
        report: Report,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._metrics = metrics
        self._trail = trail
        self._feed = feed
        self._report = report
        self._now_ms = now_ms
        # Those that have been counted: to look them up by their labels takes longer than to count.
        self._acts: dict[tuple[str, Verdict], Counter] = {}
        self._beats: LRUCache[tuple[str | None, Verdict], int] = LRUCache(MOST_NODES)

    def acted(self, act: Act) -> None:
        kind = KINDS.get(act.type, OTHER)
        acts = self._acts.get((kind, act.verdict))
        if acts is None:
            acts = self._acts[kind, act.verdict] = self._metrics.acts.labels(kind, act.verdict.value)
        acts.inc()
        if act.verdict in REFUSED:
            said = "An event of ours was not taken." if act.is_ours else "An event was refused."
            log.info(said, peer=act.peer, type=act.type[:100], verdict=act.verdict.value, reason=act.detail)
        now_ms = self._now_ms()
        if act.type != Heartbeat.TYPE or self._is_first(act, now_ms):
            self._trail.note(entry_of(act, now_ms))
        self._feed.show(lambda now_ms: of_act(act, now_ms))

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self._report(sentence, error)

    def _is_first(self, act: Act, now_ms: int) -> bool:
        key = act.peer, act.verdict
        last = self._beats.get(key)
        self._beats[key] = now_ms
        return last is None or now_ms - last > SILENCE_MS
