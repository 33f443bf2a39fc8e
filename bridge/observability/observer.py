"""Counts and logs the events of the listener."""

import structlog
from prometheus_client import Histogram

from bridge.observability.metrics import Metrics
from federation.http.server.observer import Observer

log = structlog.get_logger("palaver.listener")


class ListenerObserver(Observer):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        # Labels come from small fixed sets. Looking one up takes longer than counting.
        self._requests: dict[tuple[str, str, int], Histogram] = {}

    def connection_opened(self, kind: str) -> None:
        self._metrics.connections.labels(kind).inc()

    def connection_closed(self, kind: str) -> None:
        self._metrics.connections.labels(kind).dec()

    def connection_refused(self, reason: str) -> None:
        self._metrics.refused.labels(reason).inc()

    def handshake_failed(self, reason: str) -> None:
        self._metrics.refused.labels(f"handshake_{reason}").inc()

    def connection_expired(self, phase: str) -> None:
        self._metrics.refused.labels(f"expired_{phase}").inc()

    def request_answered(self, route: str, method: str, status: int, seconds: float) -> None:
        named = route, method, status
        histogram = self._requests.get(named)
        if histogram is None:
            histogram = self._requests[named] = self._metrics.requests.labels(route, method, str(status))
        histogram.observe(seconds)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)
