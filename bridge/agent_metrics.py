"""What the node counts of agents and their tasks, in Prometheus' names. No label is taken from a peer."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

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
        self.acts = Counter(
            "palaver_cis_events",
            "Events of the federation of agents, by type and what became of them.",
            ["type", "verdict"],
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
