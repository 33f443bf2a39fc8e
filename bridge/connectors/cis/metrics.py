"""What the connector counts, in Prometheus' names. No label is taken from a peer."""

from prometheus_client import CollectorRegistry, Counter


class CisMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.acts = Counter(
            "palaver_cis_events",
            "Events of the federation of agents, by type and what became of them.",
            ["type", "verdict"],
            registry=registry,
        )
