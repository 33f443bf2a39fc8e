"""Observing the homeserver of an attached node."""

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from appservice.intake.transaction import Transaction
from bridge.observability.appservice_observer import LoggedAppservice
from bridge.observability.health import HOMESERVER, Health
from bridge.observability.metrics import AppserviceMetrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def health() -> Health:
    health = Health()
    health.expect(HOMESERVER)
    return health


@pytest.fixture
def observer(registry: CollectorRegistry, health: Health) -> LoggedAppservice:
    return LoggedAppservice(AppserviceMetrics(registry), health, lambda: 5_000)


def test_outage_and_recovery(observer: LoggedAppservice, health: Health, registry: CollectorRegistry) -> None:
    """The node is not ready meanwhile; each change is one log line."""
    observer.connected(was_pinged=True)
    assert health.get(HOMESERVER) is None
    with capture_logs() as lines:
        observer.unavailable("It is gone.")
        assert health.get(HOMESERVER) == "It is gone."
        assert registry.get_sample_value("palaver_homeserver_up") == 0
        observer.available(2.5)
    assert health.get(HOMESERVER) is None
    assert registry.get_sample_value("palaver_homeserver_up") == 1
    assert registry.get_sample_value("palaver_homeserver_outages_total") == 1
    assert registry.get_sample_value("palaver_homeserver_outage_seconds_total") == 2.5
    assert [line["log_level"] for line in lines] == ["warning", "info"]


def test_unreachable_node_is_not_ready(observer: LoggedAppservice, health: Health) -> None:
    """It can send, but receives nothing."""
    observer.unreachable("It cannot.")
    assert health.get(HOMESERVER) == "It cannot."
    observer.reachable()
    assert health.get(HOMESERVER) is None


def test_waiting_at_start_is_logged_once(observer: LoggedAppservice, health: Health) -> None:
    """For each reason."""
    with capture_logs() as lines:
        for reason in ("It is gone.", "It is gone.", "It is in trouble."):
            observer.waiting(reason)
            assert health.get(HOMESERVER) == reason
    assert [line["reason"] for line in lines] == ["It is gone.", "It is in trouble."]


def test_requests_and_transactions_are_counted(observer: LoggedAppservice, registry: CollectorRegistry) -> None:
    """Entries of repeated transactions do not count."""
    assert observer.last_transaction_ms is None
    for outcome in ("ok", "ok", "away"):
        observer.request_finished("PUT", "send", outcome, 0.01)
    for is_new in (True, False):
        observer.transaction_received(Transaction(skipped=("an event is not an object",)), is_new=is_new, seconds=0.01)
    observer.ping_received()
    read = registry.get_sample_value
    asked = {"kind": "send", "method": "PUT", "outcome": "ok"}
    assert read("palaver_homeserver_request_seconds_count", asked) == 2
    for verdict in ("new", "repeated"):
        assert read("palaver_appservice_transaction_seconds_count", {"verdict": verdict}) == 1
    assert read("palaver_appservice_taken_total", {"kind": "left_out"}) == 1
    assert read("palaver_appservice_last_transaction_timestamp_seconds") == 5
    assert read("palaver_appservice_last_ping_timestamp_seconds") == 5
    assert observer.last_transaction_ms == 5_000


def test_problems_are_logged(observer: LoggedAppservice) -> None:
    """With the exception."""
    with capture_logs() as lines:
        observer.problem("Something failed.", ValueError("no"))
    assert [(line["event"], line["log_level"]) for line in lines] == [("Something failed.", "error")]
