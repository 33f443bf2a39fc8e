"""What the node counts, in Prometheus' names. One registry a node, so that two of them fit in one process."""

from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge.agent_metrics import AgentMetrics
from bridge.federation_metrics import FederationMetrics

# A key answer takes under a millisecond, a join of a large room seconds.
REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Every metric of the node, each with the sentence that explains it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.information = Gauge(
            "palaver_information",
            "Always 1; its labels say what runs.",
            ["version", "server_name"],
            registry=self.registry,
        )
        self.requests = Histogram(
            "palaver_http_request_seconds",
            "Requests answered on the federation port, by route, and how long each took.",
            ["route", "method", "status"],
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self.connections = Gauge(
            "palaver_http_connections",
            "Connections open on the federation port.",
            ["kind"],
            registry=self.registry,
        )
        self.refused = Counter(
            "palaver_http_connections_refused",
            "Connections ended before or between requests, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.lag = Histogram(
            "palaver_event_loop_lag_seconds",
            "How much later than asked the event loop woke up.",
            buckets=LAG_SECONDS,
            registry=self.registry,
        )
        self.database_restarts = Counter(
            "palaver_database_restarts",
            "How often the embedded Postgres had to be started again.",
            registry=self.registry,
        )
        self.federation = FederationMetrics(self.registry)
        self.agents = AgentMetrics(self.registry)

    def watch_pool(self, read: Callable[[], tuple[int, int, int]]) -> None:
        """Show the database pool at every scrape; `read` gives its size, how many are idle, and its limit."""
        self.registry.register(_PoolCollector(read))


class _PoolCollector(Collector):
    def __init__(self, read: Callable[[], tuple[int, int, int]]) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        size, idle, most = self._read()
        family = GaugeMetricFamily(
            "palaver_database_pool_connections", "Connections to the database.", labels=["state"]
        )
        family.add_metric(["idle"], idle)
        family.add_metric(["busy"], size - idle)
        family.add_metric(["limit"], most)
        yield family
