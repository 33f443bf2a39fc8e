"""Counts and logs the events of the homeserver."""

from collections.abc import Sequence

import structlog
from prometheus_client import Counter, Histogram

from bridge.observability.metrics import FederationMetrics
from federation.observer import HomeserverObserver, Outcome, QueueDepth

log = structlog.get_logger("palaver.federation")


class FederationObserver(HomeserverObserver):
    def __init__(self, metrics: FederationMetrics) -> None:
        self._metrics = metrics
        self._failing: set[str] = set()
        # Resolved metric children: there are few, and looking one up takes as long as counting.
        self._of_transactions: dict[Outcome, Histogram] = {}
        self._of_requests: dict[tuple[str, str, Outcome], Histogram] = {}
        self._removed_by_reason: dict[str, Counter] = {}
        self._of_sent: dict[str, Counter] = {}
        self._received: dict[str, Counter] = {}

    # -- rooms --

    def event_received(self, verdict: str) -> None:
        counter = self._received.get(verdict)
        if counter is None:
            # There are four verdicts. Looking one up takes longer than counting.
            counter = self._received[verdict] = self._metrics.received.labels(verdict)
        counter.inc()

    def event_sent(self) -> None:
        self._metrics.made.inc()

    def state_resolved(self, seconds: float) -> None:
        self._metrics.resolutions.observe(seconds)

    def remote_data_missing(self, sentence: str) -> None:
        log.info("Another server did not return required data.", reason=sentence)

    # -- the outbox --

    def transaction_ended(self, destination: str, outcome: Outcome, pdus: int, edus: int, seconds: float) -> None:
        ended = self._of_transactions.get(outcome)
        if ended is None:
            ended = self._of_transactions[outcome] = self._metrics.transactions.labels(outcome.value)
        ended.observe(seconds)
        if outcome is Outcome.ANSWERED:
            self._sent("pdu", pdus)
            self._sent("edu", edus)
            if destination in self._failing:
                self._failing.discard(destination)
                log.info("A server accepts transactions again.", server=destination)
        elif destination not in self._failing:
            self._failing.add(destination)
            log.warning(
                "A server does not accept transactions; they are queued.", server=destination, outcome=outcome.value
            )

    def _sent(self, kind: str, count: int) -> None:
        sent = self._of_sent.get(kind)
        if sent is None:
            sent = self._of_sent[kind] = self._metrics.sent.labels(kind)
        if count:
            sent.inc(count)

    def removed_from_queue(self, destination: str, reason: str, count: int) -> None:
        left = self._removed_by_reason.get(reason)
        if left is None:
            left = self._removed_by_reason[reason] = self._metrics.left_queue.labels(str(reason))
        left.inc(count)

    def event_refused(self, destination: str, event_id: str, error: str) -> None:
        log.warning("A server rejected an event.", server=destination, event_id=event_id, reason=error)

    def queue_depths(self, depths: Sequence[QueueDepth]) -> None:
        self._metrics.queues.waiting = tuple(depths)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)

    # -- requests to others --

    def request_ended(self, endpoint: str, method: str, outcome: Outcome, seconds: float) -> None:
        labels = endpoint, method, outcome
        ended = self._of_requests.get(labels)
        if ended is None:
            ended = self._of_requests[labels] = self._metrics.requests.labels(endpoint, method, outcome.value)
        ended.observe(seconds)

    def keys_fetched(self, source: str, outcome: Outcome) -> None:
        self._metrics.key_fetches.labels(source, outcome.value).inc()
