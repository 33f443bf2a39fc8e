"""Who counts what a homeserver does."""

from federation.peer_errors import Outcome
from federation.service.homeserver_observer import HomeserverObserver, Unobserved


def test_nobody_need_count() -> None:
    """Silence is an observer too."""
    observer: HomeserverObserver = Unobserved()
    observer.kept_from("No history.")
    observer.request_ended("/_matrix/federation/v1/version", "GET", Outcome.ANSWERED, 0.1)
    observer.keys_fetched("direct", Outcome.ANSWERED)
    observer.event_received("accepted")
    observer.state_resolved(0.1)
    observer.event_sent()
