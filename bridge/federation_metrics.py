"""What the node counts of its dealings with other servers, in Prometheus' names.

Labels are few and never taken from a peer; the one exception is how much waits for whom, where only servers
count for which something waits.
"""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from federation.queue_depth import Waiting

# A fork of two messages takes under a millisecond, one of a room with ten thousand members a second.
RESOLUTION_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class FederationMetrics:
    """Every metric of it, each with the sentence that explains it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received = Counter(
            "palaver_federation_pdus_received",
            "Events of other servers, by what became of each.",
            ["verdict"],
            registry=registry,
        )
        self.made = Counter(
            "palaver_federation_events_made", "Events of this node's own users.", registry=registry
        )
        self.sent = Counter(
            "palaver_federation_sent",
            "PDUs and EDUs that other servers have taken.",
            ["kind"],
            registry=registry,
        )
        self.left_queue = Counter(
            "palaver_federation_queue_left",
            "What left the queues to other servers, by why.",
            ["fate"],
            registry=registry,
        )
        self.transactions = Histogram(
            "palaver_federation_transaction_seconds",
            "Transactions sent to other servers, by how each ended, and how long each took.",
            ["outcome"],
            buckets=REQUEST_SECONDS,
            registry=registry,
        )
        self.requests = Histogram(
            "palaver_federation_request_seconds",
            "Requests to other servers, by endpoint and how each ended, and how long each took.",
            ["endpoint", "method", "outcome"],
            buckets=REQUEST_SECONDS,
            registry=registry,
        )
        self.resolutions = Histogram(
            "palaver_federation_state_resolution_seconds",
            "State resolutions, and how long each took.",
            buckets=RESOLUTION_SECONDS,
            registry=registry,
        )
        self.key_fetches = Counter(
            "palaver_federation_key_fetches",
            "Times that signing keys were asked for, by where and how it ended.",
            ["source", "outcome"],
            registry=registry,
        )
        self.queues = QueueCollector()
        registry.register(self.queues)


class QueueCollector(Collector):
    """Shows what the outbox said last; a server for which nothing waits any more is not shown."""

    def __init__(self) -> None:
        self.waiting: Sequence[Waiting] = ()

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        depth = GaugeMetricFamily(
            "palaver_federation_queue_depth",
            "PDUs and EDUs that wait for a server.",
            labels=["destination", "kind"],
        )
        lag = GaugeMetricFamily(
            "palaver_federation_queue_lag_seconds",
            "How long what waits longest for a server has waited.",
            labels=["destination"],
        )
        for one in self.waiting:
            depth.add_metric([one.destination, "pdu"], one.pdus)
            depth.add_metric([one.destination, "edu"], one.edus)
            lag.add_metric([one.destination], one.lag_ms / 1000)
        yield depth
        yield lag
