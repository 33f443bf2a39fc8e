"""Metrics of an attached node."""

from prometheus_client import CollectorRegistry, generate_latest

from bridge.observability.metrics import AppserviceMetrics


def test_names_and_help_texts() -> None:
    """Two nodes in one process have separate metrics."""
    for _ in range(2):
        registry = CollectorRegistry()
        metrics = AppserviceMetrics(registry)
        metrics.requests.labels("send", "PUT", "ok").observe(0.003)
        metrics.lag.labels("people").set(3)
        shown = generate_latest(registry).decode()
        families = list(registry.collect())
        assert all(one.documentation.endswith(".") for one in families)
        assert all(one.name.startswith(("palaver_homeserver_", "palaver_appservice_")) for one in families)
        assert 'palaver_appservice_reader_lag{reader="people"} 3.0' in shown
        assert registry.get_sample_value("palaver_appservice_last_transaction_timestamp_seconds") == 0
