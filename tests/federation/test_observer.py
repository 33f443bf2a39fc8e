"""The observer of a homeserver."""

from federation.observer import HomeserverObserver, Outcome, QueueDepth
from federation.outbox.destination import State
from federation.outbox.messages import RemovalReason


def test_observer_methods_do_nothing_by_default() -> None:
    """Subclasses override what they need."""
    observer = HomeserverObserver()
    observer.event_received("accepted")
    observer.state_resolved(0.1)
    observer.event_sent()
    observer.remote_data_missing("No history.")
    observer.request_ended("/_matrix/federation/v1/version", "GET", Outcome.ANSWERED, 0.1)
    observer.keys_fetched("direct", Outcome.ANSWERED)
    observer.transaction_ended("peer.test", Outcome.ANSWERED, 1, 0, 0.1)
    observer.removed_from_queue("peer.test", RemovalReason.DELIVERED, 1)
    observer.state_changed("peer.test", State.IDLE)
    observer.event_refused("peer.test", "$e", "No.")
    observer.queue_depths([QueueDepth("peer.test", 1, 0, 0)])
    observer.problem("Something.", None)
