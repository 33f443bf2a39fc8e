"""The node's Prometheus metrics. Each node has its own registry, so that a process can have two.

Labels come from small fixed sets and never from a peer or the homeserver; the one exception are the outbox
gauges, which have the destinations with queued events.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from federation.observer import QueueDepth

# Otherwise each counter would have a second series with the time of its creation.
disable_created_metrics()  # type: ignore[no-untyped-call]

# A trivial agent answers within milliseconds, one that writes a program takes minutes.
TASK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)

Counts = Mapping[str, int]


class AgentMetrics:
    """All metrics with their help texts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.steps = Counter(
            "palaver_task_steps", "Task state transitions, by the new state.", ["state"], registry=registry
        )
        self.failures = Counter(
            "palaver_task_failures",
            "Tasks that ended without success, by error code; other: reported by the agent itself.",
            ["code"],
            registry=registry,
        )
        self.durations = Histogram(
            "palaver_task_seconds",
            "Time from receiving a task to its end, by outcome and place of execution.",
            ["outcome", "where"],
            buckets=TASK_SECONDS,
            registry=registry,
        )
        self.dropped = Counter(
            "palaver_task_messages_dropped",
            "Rejected messages about tasks: too late, too long, or from the wrong sender.",
            registry=registry,
        )

    def watch_agents(self, count: Callable[[], Counts]) -> None:
        """Count agents at every scrape, by location."""
        self._registry.register(_AgentCollector(count))


class _AgentCollector(Collector):
    def __init__(self, count: Callable[[], Counts]) -> None:
        self._count = count

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("palaver_agents", "Online agents, on this node and on others.", labels=["where"])
        for where, number in self._count().items():
            family.add_metric([where], number)
        yield family


# A fork of two messages takes under a millisecond, one of a room with ten thousand members a second.
RESOLUTION_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
PEER_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class FederationMetrics:
    """All metrics with their help texts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received = Counter(
            "palaver_federation_pdus_received",
            "Events received from other servers, by verdict.",
            ["verdict"],
            registry=registry,
        )
        self.made = Counter("palaver_federation_events_made", "Events sent by local users.", registry=registry)
        self.sent = Counter(
            "palaver_federation_sent", "PDUs and EDUs that other servers have accepted.", ["kind"], registry=registry
        )
        self.left_queue = Counter(
            "palaver_federation_queue_left",
            "PDUs and EDUs that left the outbox queues, by reason.",
            ["fate"],
            registry=registry,
        )
        self.transactions = Histogram(
            "palaver_federation_transaction_seconds",
            "Duration of transactions to other servers, by outcome.",
            ["outcome"],
            buckets=PEER_REQUEST_SECONDS,
            registry=registry,
        )
        self.requests = Histogram(
            "palaver_federation_request_seconds",
            "Duration of requests to other servers, by endpoint and outcome.",
            ["endpoint", "method", "outcome"],
            buckets=PEER_REQUEST_SECONDS,
            registry=registry,
        )
        self.resolutions = Histogram(
            "palaver_federation_state_resolution_seconds",
            "Duration of state resolutions.",
            buckets=RESOLUTION_SECONDS,
            registry=registry,
        )
        self.key_fetches = Counter(
            "palaver_federation_key_fetches",
            "Fetches of signing keys, by source and outcome.",
            ["source", "outcome"],
            registry=registry,
        )
        self.queues = QueueCollector()
        registry.register(self.queues)


class QueueCollector(Collector):
    """Exports the outbox's last report; servers without queued events are omitted."""

    def __init__(self) -> None:
        self.waiting: Sequence[QueueDepth] = ()

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        depth = GaugeMetricFamily(
            "palaver_federation_queue_depth", "PDUs and EDUs queued for a server.", labels=["destination", "kind"]
        )
        lag = GaugeMetricFamily(
            "palaver_federation_queue_lag_seconds",
            "Age of the oldest PDU or EDU queued for a server.",
            labels=["destination"],
        )
        for one in self.waiting:
            depth.add_metric([one.destination, "pdu"], one.pdus)
            depth.add_metric([one.destination, "edu"], one.edus)
            lag.add_metric([one.destination], one.lag_ms / 1000)
        yield depth
        yield lag


# A key response takes under a millisecond, a join of a large room seconds.
REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """All metrics of the node with their help texts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.information = Gauge(
            "palaver_info",
            "Always 1; the labels identify the node.",
            ["version", "server_name"],
            registry=self.registry,
        )
        self.requests = Histogram(
            "palaver_http_request_seconds",
            "Duration of requests to the federation port, by route.",
            ["route", "method", "status"],
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self.connections = Gauge(
            "palaver_http_connections", "Open connections to the federation port.", ["kind"], registry=self.registry
        )
        self.refused = Counter(
            "palaver_http_connections_refused",
            "Connections closed before or between requests, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.lag = Histogram(
            "palaver_event_loop_lag_seconds",
            "Delay of event loop wake-ups.",
            buckets=LAG_SECONDS,
            registry=self.registry,
        )
        self.database_restarts = Counter(
            "palaver_database_restarts", "Restarts of the embedded Postgres.", registry=self.registry
        )
        self.federation = FederationMetrics(self.registry)
        self.agents = AgentMetrics(self.registry)

    def watch_pool(self, read: Callable[[], tuple[int, int, int]]) -> None:
        """Export the database pool at every scrape; `read` returns its size, idle connections and limit."""
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


HOMESERVER_REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RECEIVE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class AppserviceMetrics:
    """All metrics with their help texts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Histogram(
            "palaver_homeserver_request_seconds",
            "Duration of requests to the homeserver, by kind and outcome.",
            ["kind", "method", "outcome"],
            buckets=HOMESERVER_REQUEST_SECONDS,
            registry=registry,
        )
        self.is_there = Gauge("palaver_homeserver_up", "Whether the homeserver is available.", registry=registry)
        self.outages = Counter("palaver_homeserver_outages", "Outages of the homeserver.", registry=registry)
        self.outage_seconds = Counter(
            "palaver_homeserver_outage_seconds", "Total duration of the homeserver's outages.", registry=registry
        )
        self.transactions = Histogram(
            "palaver_appservice_transaction_seconds",
            "Duration of receiving the homeserver's transactions, new and repeated.",
            ["verdict"],
            buckets=RECEIVE_SECONDS,
            registry=registry,
        )
        self.taken = Counter(
            "palaver_appservice_taken",
            "Entries of the homeserver's transactions, by kind.",
            ["kind"],
            registry=registry,
        )
        self.last_transaction = Gauge(
            "palaver_appservice_last_transaction_timestamp_seconds",
            "When the last transaction was received. 0: none since the start.",
            registry=registry,
        )
        self.last_ping = Gauge(
            "palaver_appservice_last_ping_timestamp_seconds",
            "When the homeserver last reached this node with a requested ping.",
            registry=registry,
        )
        self.lag = Gauge(
            "palaver_appservice_reader_lag",
            "How many stream positions each reader of the homeserver's events is behind.",
            ["reader"],
            registry=registry,
        )
        self.ghosts = Gauge(
            "palaver_appservice_ghosts", "Users that this node has registered with the homeserver.", registry=registry
        )
        self.rooms = Gauge(
            "palaver_appservice_rooms", "Rooms on the homeserver that contain such users.", registry=registry
        )
