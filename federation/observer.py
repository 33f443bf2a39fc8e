"""What a homeserver reports to metrics and logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a request to another server. The values are metric labels: a fixed set, not chosen by
    peers."""

    ANSWERED = "answered"
    NOT_ALLOWED = "not_allowed"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    FAILED = "failed"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of items queued for a server, and for how long the oldest has been queued."""

    destination: str
    pdus: int
    edus: int
    lag_ms: int


class HomeserverObserver:
    """Does nothing; metrics and logs derive from it. Its methods are called from the event loop and must
    not block."""

    # -- rooms --

    def event_received(self, verdict: str) -> None:
        """`accepted`, `soft_failed`, `rejected` or `dropped`."""

    def state_resolved(self, seconds: float) -> None: ...

    def event_sent(self) -> None: ...

    def remote_data_missing(self, sentence: str) -> None:
        """Another server did not provide data that was needed."""

    # -- requests to other servers --

    def request_ended(self, endpoint: str, method: str, outcome: Outcome, seconds: float) -> None:
        """`endpoint` is the path template of the specification; no label has a server name."""

    def keys_fetched(self, source: str, outcome: Outcome) -> None:
        """`source` is `direct` or `notary`."""

    # -- the outbox --

    def transaction_ended(self, destination: str, outcome: Outcome, pdus: int, edus: int, seconds: float) -> None: ...

    def removed_from_queue(self, destination: str, reason: str, count: int) -> None:
        """`reason` is a `federation.outbox.messages.RemovalReason`."""

    def state_changed(self, destination: str, state: str) -> None:
        """The sender to that server has changed its state and performed the effects. Delivered items are
        deleted a moment later."""

    def event_refused(self, destination: str, event_id: str, error: str) -> None:
        """The peer has received the transaction but refused this event."""

    def queue_depths(self, depths: Sequence[QueueDepth]) -> None:
        """Called every few seconds with all servers that have queued items."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """Report a problem to the operator."""
