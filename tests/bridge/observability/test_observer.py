"""Observing the listener."""

from prometheus_client import generate_latest

from bridge.observability.metrics import Metrics
from bridge.observability.observer import ListenerObserver
from federation.http.server.observer import Observer


def test_every_event_is_counted() -> None:
    """With its labels."""
    metrics = Metrics()
    observer: Observer = ListenerObserver(metrics)
    observer.connection_opened("tls")
    observer.connection_opened("plain")
    observer.connection_closed("plain")
    observer.connection_refused("too_many_connections")
    observer.handshake_failed("silent")
    observer.connection_expired("head")
    observer.request_answered("/health/live", "GET", 200, 0.002)
    observer.problem("Something is wrong.", None)
    text = generate_latest(metrics.registry).decode()
    for line in (
        'palaver_http_connections{kind="tls"} 1.0',
        'palaver_http_connections{kind="plain"} 0.0',
        'palaver_http_connections_refused_total{reason="too_many_connections"} 1.0',
        'palaver_http_connections_refused_total{reason="handshake_silent"} 1.0',
        'palaver_http_connections_refused_total{reason="expired_head"} 1.0',
        'palaver_http_request_seconds_count{method="GET",route="/health/live",status="200"} 1.0',
    ):
        assert line in text
