"""Who counts what is sent."""

from federation.destination import State
from federation.destination_messages import Fate
from federation.peer_errors import Outcome
from federation.queue_depth import Waiting
from federation.service.outbox_observer import OutboxObserver, Silent


def test_nobody_need_count() -> None:
    """Silence is an observer too."""
    observer: OutboxObserver = Silent()
    observer.transaction_ended("peer.test", Outcome.ANSWERED, 1, 0, 0.1)
    observer.left_queue("peer.test", Fate.DELIVERED, 1)
    observer.state_changed("peer.test", State.IDLE)
    observer.objected("peer.test", "$e", "No.")
    observer.depths([Waiting("peer.test", 1, 0, 0)])
    observer.problem("Something.", None)
