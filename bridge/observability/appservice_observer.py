"""What an appservice node observes of its homeserver, counted and logged."""

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
        self._events, self._ephemeral, self._to_device, self._left_out = map(metrics.taken.labels, kinds)
        self.last_transaction_ms: int | None = None

    # -- what is asked of it --

    def asked(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        named = kind, method, outcome
        ended = self._requests.get(named)
        if ended is None:
            # They are few, and to look one up takes as long as to count.
            ended = self._requests[named] = self._metrics.requests.labels(*named)
        ended.observe(seconds)

    # -- whether it is there --

    def waited_for(self, wrong: str) -> None:
        """It is not there when the node starts."""
        if self._health.get(HOMESERVER) != wrong:
            log.warning("The node starts once the homeserver is there.", reason=wrong)
        self._health.set(HOMESERVER, wrong)

    def met(self) -> None:
        """It is there, and all is as the configuration says."""
        self._metrics.is_there.set(1)
        self.pinged()
        self._health.set(HOMESERVER, None)

    def away(self, wrong: str) -> None:
        self._metrics.is_there.set(0)
        self._metrics.outages.inc()
        self._health.set(HOMESERVER, wrong)
        log.warning("The homeserver is away; what there is to say waits.", reason=wrong)

    def back(self, seconds: float) -> None:
        self._metrics.is_there.set(1)
        self._metrics.outage_seconds.inc(seconds)
        self._health.set(HOMESERVER, None)
        log.info("The homeserver is back.", seconds=round(seconds, 1))

    def unreached(self, wrong: str) -> None:
        self._health.set(HOMESERVER, wrong)
        log.error("The homeserver does not reach this node.", reason=wrong)

    def reached(self) -> None:
        self._health.set(HOMESERVER, None)
        log.info("The homeserver reaches this node again.")

    def pinged(self) -> None:
        self._metrics.last_ping.set(self._now_ms() / 1000)

    # -- what it sends --

    def taken_in(self, transaction: Transaction, *, is_new: bool, seconds: float) -> None:
        (self._new if is_new else self._repeated).observe(seconds)
        self.last_transaction_ms = self._now_ms()
        self._metrics.last_transaction.set(self.last_transaction_ms / 1000)
        if is_new:
            self._events.inc(len(transaction.events))
            self._ephemeral.inc(len(transaction.ephemeral))
            self._to_device.inc(len(transaction.to_device))
            self._left_out.inc(len(transaction.left_out))

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)


FIGURES_EVERY: Final = 10.0
"""Seconds: as often as anybody scrapes."""


async def show_figures(guest: Appservice, metrics: AppserviceMetrics) -> None:
    """Those that have to be asked of the database."""
    for reader, lag in (await guest.rooms.lags()).items():
        metrics.lag.labels(reader).set(lag)
    figures = await guest.database.read(count_ghosts_and_rooms)
    metrics.ghosts.set(figures.ghosts)
    metrics.rooms.set(figures.rooms)
