"""What a guest counts of its dealings with the homeserver, in Prometheus' names.

Labels come from small fixed sets: none of them is taken from what the homeserver says.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TAKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class GuestMetrics:
    """Every metric of it, each with the sentence that explains it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Histogram(
            "palaver_homeserver_request_seconds",
            "Requests to the homeserver, by what for and how each ended, and how long each took.",
            ["kind", "method", "outcome"],
            buckets=REQUEST_SECONDS,
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
