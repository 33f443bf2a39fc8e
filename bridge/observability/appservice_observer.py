"""Counts and logs the traffic with the homeserver of an attached node."""

from collections.abc import Callable
from typing import Final

import structlog
from prometheus_client import Histogram

from appservice.appservice import Appservice
from appservice.intake.transaction import Transaction
from appservice.observer import AppserviceObserver
from bridge.observability.health import HOMESERVER, Health
from bridge.observability.metrics import AppserviceMetrics
from storage.appservice.rooms import count_ghosts_and_rooms

log = structlog.get_logger("palaver.homeserver")


class LoggedAppservice(AppserviceObserver):
    def __init__(self, metrics: AppserviceMetrics, health: Health, now_ms: Callable[[], int]) -> None:
        self._metrics = metrics
        self._health = health
        self._now_ms = now_ms
        self._requests: dict[tuple[str, str, str], Histogram] = {}
        self._new = metrics.transactions.labels("new")
        self._repeated = metrics.transactions.labels("repeated")
        kinds = ("event", "ephemeral", "to_device", "left_out")
        self._events, self._ephemeral, self._to_device, self._skipped = map(metrics.taken.labels, kinds)
        self.last_transaction_ms: int | None = None

    # -- requests to the homeserver --

    def request_finished(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        labels = kind, method, outcome
        histogram = self._requests.get(labels)
        if histogram is None:
            # Looking up a metric child takes as long as counting.
            histogram = self._requests[labels] = self._metrics.requests.labels(*labels)
        histogram.observe(seconds)

    # -- availability --

    def waiting(self, problem: str) -> None:
        """The homeserver is unavailable when the node starts."""
        if self._health.get(HOMESERVER) != problem:
            log.warning("The node starts once the homeserver is available.", reason=problem)
        self._health.set(HOMESERVER, problem)

    def connected(self, *, was_pinged: bool) -> None:
        """The homeserver is available and matches the configuration."""
        self._metrics.is_there.set(1)
        if was_pinged:
            self.ping_received()
        self._health.set(HOMESERVER, None)

    def warn(self, problem: str) -> None:
        """The homeserver lacks something that the node can do without."""
        log.warning(problem)

    def unavailable(self, problem: str) -> None:
        self._metrics.is_there.set(0)
        self._metrics.outages.inc()
        self._health.set(HOMESERVER, problem)
        log.warning("The homeserver is unavailable; requests are queued.", reason=problem)

    def available(self, seconds: float) -> None:
        self._metrics.is_there.set(1)
        self._metrics.outage_seconds.inc(seconds)
        self._health.set(HOMESERVER, None)
        log.info("The homeserver is available again.", seconds=round(seconds, 1))

    def unreachable(self, problem: str) -> None:
        self._health.set(HOMESERVER, problem)
        log.error("The homeserver cannot reach this node.", reason=problem)

    def reachable(self) -> None:
        self._health.set(HOMESERVER, None)
        log.info("The homeserver can reach this node again.")

    def ping_received(self) -> None:
        self._metrics.last_ping.set(self._now_ms() / 1000)

    # -- received transactions --

    def transaction_received(self, transaction: Transaction, *, is_new: bool, seconds: float) -> None:
        (self._new if is_new else self._repeated).observe(seconds)
        self.last_transaction_ms = self._now_ms()
        self._metrics.last_transaction.set(self.last_transaction_ms / 1000)
        if is_new:
            self._events.inc(len(transaction.events))
            self._ephemeral.inc(len(transaction.ephemeral))
            self._to_device.inc(len(transaction.to_device))
            self._skipped.inc(len(transaction.skipped))

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)


GAUGE_INTERVAL: Final = 10.0
"""Seconds: typical scrape intervals are not shorter."""


async def update_gauges(appservice: Appservice, metrics: AppserviceMetrics) -> None:
    """Set the gauges that need a database query."""
    for reader, lag in (await appservice.local_users.lags()).items():
        metrics.lag.labels(reader).set(lag)
    figures = await appservice.database.read(count_ghosts_and_rooms)
    metrics.ghosts.set(figures.ghosts)
    metrics.rooms.set(figures.rooms)
