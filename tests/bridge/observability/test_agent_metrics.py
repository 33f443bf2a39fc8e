"""Metrics of agents."""

from prometheus_client import CollectorRegistry

from bridge.observability.metrics import AgentMetrics


def test_agents_are_counted_per_scrape() -> None:
    """With current values."""
    registry = CollectorRegistry()
    counts = {"here": 1, "elsewhere": 2}
    AgentMetrics(registry).watch_agents(lambda: counts)
    assert registry.get_sample_value("palaver_agents", {"where": "elsewhere"}) == 2
    counts["elsewhere"] = 5
    assert registry.get_sample_value("palaver_agents", {"where": "elsewhere"}) == 5
