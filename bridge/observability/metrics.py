"""What the node counts, in Prometheus' names. One registry a node, so that two of them fit in one process.

What the node counts of agents and their tasks, in Prometheus' names. No label is taken from a peer.

What the node counts of its dealings with other servers, in Prometheus' names.

Labels are few and never taken from a peer; the one exception is how much waits for whom, where only servers
count for which something waits.

What a guest counts of its dealings with the homeserver, in Prometheus' names.

Labels come from small fixed sets: none of them is taken from what the homeserver says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

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

from federation.observer import Waiting

# A trivial agent answers within milliseconds, one that writes a program takes minutes.
TASK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0)

Counts = Mapping[str, int]


class AgentMetrics:
    """Every metric of it, each with the sentence that explains it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.steps = Counter(
            "palaver_task_steps", "Steps of tasks, by the state they led to.", ["state"], registry=registry
        )
        self.failures = Counter(
            "palaver_task_failures",
            "Tasks that ended without success, by their code; other: the agent itself said so.",
            ["code"],
            registry=registry,
        )
        self.durations = Histogram(
            "palaver_task_seconds",
            "Time from the receipt of a task to its end, by how it ended and where it was worked on.",
            ["outcome", "where"],
            buckets=TASK_SECONDS,
            registry=registry,
        )
        self.dropped = Counter(
            "palaver_task_messages_dropped",
            "What was said of tasks and not taken: too late, too long, or by somebody else.",
            registry=registry,
        )

    def watch_agents(self, count: Callable[[], Counts]) -> None:
        """Show at every scrape how many agents there are, by where they are."""
        self._registry.register(_AgentCollector(count))


class _AgentCollector(Collector):
    def __init__(self, count: Callable[[], Counts]) -> None:
        self._count = count

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(
            "palaver_agents", "Agents that are there, on this node and on others.", labels=["where"]
        )
        for where, number in self._count().items():
            family.add_metric([where], number)
        yield family


# A fork of two messages takes under a millisecond, one of a room with ten thousand members a second.
RESOLUTION_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
PEER_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


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
            buckets=PEER_REQUEST_SECONDS,
            registry=registry,
        )
        self.requests = Histogram(
            "palaver_federation_request_seconds",
            "Requests to other servers, by endpoint and how each ended, and how long each took.",
            ["endpoint", "method", "outcome"],
            buckets=PEER_REQUEST_SECONDS,
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


HOMESERVER_REQUEST_SECONDS = (
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
TAKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class AppserviceMetrics:
    """Every metric of it, each with the sentence that explains it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Histogram(
            "palaver_homeserver_request_seconds",
            "Requests to the homeserver, by what for and how each ended, and how long each took.",
            ["kind", "method", "outcome"],
            buckets=HOMESERVER_REQUEST_SECONDS,
            registry=registry,
        )
        self.is_there = Gauge(
            "palaver_homeserver_up",
            "Whether the homeserver was there when it was needed last.",
            registry=registry,
        )
        self.outages = Counter("palaver_homeserver_outages", "How often it went away.", registry=registry)
        self.outage_seconds = Counter(
            "palaver_homeserver_outage_seconds", "For how long it was away, in all.", registry=registry
        )
        self.transactions = Histogram(
            "palaver_appservice_transaction_seconds",
            "Transactions of the homeserver that were taken in, and how long each took. Of a repeated one"
            " nothing was new.",
            ["verdict"],
            buckets=TAKEN_SECONDS,
            registry=registry,
        )
        self.taken = Counter(
            "palaver_appservice_taken",
            "What was in them, by kind.",
            ["kind"],
            registry=registry,
        )
        self.last_transaction = Gauge(
            "palaver_appservice_last_transaction_timestamp_seconds",
            "When the last one was taken in. 0: none since the start.",
            registry=registry,
        )
        self.last_ping = Gauge(
            "palaver_appservice_last_ping_timestamp_seconds",
            "When the homeserver last reached this node at its word.",
            registry=registry,
        )
        self.lag = Gauge(
            "palaver_appservice_reader_lag",
            "By how many places each reader of what the homeserver sent is behind.",
            ["reader"],
            registry=registry,
        )
        self.ghosts = Gauge(
            "palaver_appservice_ghosts", "Users that this node has made there.", registry=registry
        )
        self.rooms = Gauge(
            "palaver_appservice_rooms", "Rooms there in which one of them is.", registry=registry
        )
