"""Observing the homeserver."""

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from bridge.observability.federation_observer import FederationObserver
from bridge.observability.metrics import FederationMetrics
from federation.observer import HomeserverObserver, Outcome, QueueDepth
from federation.outbox.messages import RemovalReason


def test_everything_is_counted() -> None:
    """With small sets of labels."""
    registry = CollectorRegistry()
    observer: HomeserverObserver = FederationObserver(FederationMetrics(registry))
    observer.event_received("accepted")
    observer.event_sent()
    observer.state_resolved(0.01)
    observer.transaction_ended("a.example", Outcome.ANSWERED, 3, 2, 0.1)
    observer.transaction_ended("a.example", Outcome.UNREACHABLE, 5, 5, 0.1)
    observer.removed_from_queue("a.example", RemovalReason.DELIVERED, 3)
    observer.queue_depths([QueueDepth("a.example", 1, 0, 10)])
    observer.request_ended("/_matrix/federation/v1/version", "GET", Outcome.ANSWERED, 0.1)
    observer.keys_fetched("direct", Outcome.ANSWERED)
    for name, labels, value in (
        ("palaver_federation_pdus_received_total", {"verdict": "accepted"}, 1),
        ("palaver_federation_events_made_total", {}, 1),
        ("palaver_federation_state_resolution_seconds_count", {}, 1),
        ("palaver_federation_sent_total", {"kind": "pdu"}, 3),
        ("palaver_federation_sent_total", {"kind": "edu"}, 2),
        ("palaver_federation_transaction_seconds_count", {"outcome": "unreachable"}, 1),
        ("palaver_federation_queue_left_total", {"fate": "delivered"}, 3),
        ("palaver_federation_queue_depth", {"destination": "a.example", "kind": "pdu"}, 1),
        ("palaver_federation_key_fetches_total", {"source": "direct", "outcome": "answered"}, 1),
    ):
        assert registry.get_sample_value(name, labels) == value, name


def test_outage_is_logged_once() -> None:
    """Two lines: its start and its end."""
    observer = FederationObserver(FederationMetrics(CollectorRegistry()))
    with capture_logs() as lines:
        for outcome in (Outcome.TIMED_OUT, Outcome.UNREACHABLE, Outcome.ANSWERED, Outcome.ANSWERED):
            observer.transaction_ended("a.example", outcome, 1, 0, 0.1)
    assert [line["log_level"] for line in lines] == ["warning", "info"]


def test_rejected_events_are_logged() -> None:
    """With the other server's reason."""
    observer = FederationObserver(FederationMetrics(CollectorRegistry()))
    with capture_logs() as lines:
        observer.event_refused("a.example", "$event", "Forbidden")
    assert lines == [
        {
            "event": "A server rejected an event.",
            "event_id": "$event",
            "server": "a.example",
            "reason": "Forbidden",
            "log_level": "warning",
        }
    ]
