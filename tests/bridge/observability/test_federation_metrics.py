"""Metrics of federation."""

from prometheus_client import CollectorRegistry, generate_latest

from bridge.observability.metrics import FederationMetrics
from federation.observer import QueueDepth


def test_servers_with_empty_queues_are_omitted() -> None:
    """Otherwise every known server would remain a label."""
    registry = CollectorRegistry()
    metrics = FederationMetrics(registry)
    metrics.queues.waiting = [QueueDepth("slow.example", 3, 1, 2500)]
    text = generate_latest(registry).decode()
    assert 'palaver_federation_queue_depth{destination="slow.example",kind="pdu"} 3.0' in text
    assert 'palaver_federation_queue_lag_seconds{destination="slow.example"} 2.5' in text
    metrics.queues.waiting = []
    assert "slow.example" not in generate_latest(registry).decode()
