"""What a homeserver reports to metrics and logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended. The values are metric labels: few, and never taken from a peer."""

    ANSWERED = "answered"
    NOT_ALLOWED = "not_allowed"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    FAILED = "failed"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Waiting:
    """How much waits to be sent to a server, and for how long the oldest of it has."""

    destination: str
    pdus: int
    edus: int
    lag_ms: int


class HomeserverObserver:
    """Does nothing: metrics and logs derive from it. Its methods are called from the event loop and must
    return at once."""

    # -- rooms --

    def event_received(self, verdict: str) -> None:
        """`accepted`, `soft_failed`, `rejected` or `dropped`."""

    def state_resolved(self, seconds: float) -> None: ...

    def event_sent(self) -> None: ...

    def kept_from(self, sentence: str) -> None:
        """Another server could not or would not give what was needed."""

    # -- requests to other servers --

    def request_ended(self, endpoint: str, method: str, outcome: Outcome, seconds: float) -> None:
        """`endpoint` is the path as the specification writes it; no label names a server."""

    def keys_fetched(self, source: str, outcome: Outcome) -> None:
        """`source` is `direct` or `notary`."""

    # -- the outbox --

    def transaction_ended(
        self, destination: str, outcome: Outcome, pdus: int, edus: int, seconds: float
    ) -> None: ...

    def left_queue(self, destination: str, fate: str, count: int) -> None:
        """`fate` is why: delivered, given up, or dropped because the peer can pull it."""

    def state_changed(self, destination: str, state: str) -> None:
        """Of the sender to that server, once its effects are carried out; but what was delivered is deleted
        a moment later."""

    def objected(self, destination: str, event_id: str, error: str) -> None:
        """The peer has the transaction and would not take this event of it."""

    def depths(self, waiting: Sequence[Waiting]) -> None:
        """All servers for which something waits, every few seconds; for the others nothing does."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """Something the operator should read."""
