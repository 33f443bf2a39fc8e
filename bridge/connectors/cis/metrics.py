"""The connector's Prometheus metrics. No label value comes from a peer."""

from prometheus_client import CollectorRegistry, Counter


class CisMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.events = Counter(
            "palaver_cis_events",
            "Events of the federation of agents, by type and verdict.",
            ["type", "verdict"],
            registry=registry,
        )
