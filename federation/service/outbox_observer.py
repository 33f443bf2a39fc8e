"""What the outbox tells those who count and log."""

from collections.abc import Sequence
from typing import Protocol

from federation.destination import State
from federation.destination_messages import Fate
from federation.peer_errors import Outcome
from federation.queue_depth import Waiting


class OutboxObserver(Protocol):
    """Implemented by whoever counts. Called from the event loop; it must return at once."""

    def transaction_ended(
        self, destination: str, outcome: Outcome, pdus: int, edus: int, seconds: float
    ) -> None: ...

    def left_queue(self, destination: str, fate: Fate, count: int) -> None:
        """Sent, given up, or dropped because the peer can pull it."""

    def state_changed(self, destination: str, state: State) -> None:
        """Of the sender to that server, and all that it meant has been written down; but that something was
        delivered is written a moment later."""

    def objected(self, destination: str, event_id: str, error: str) -> None:
        """The peer has the transaction and would not take this event of it."""

    def depths(self, waiting: Sequence[Waiting]) -> None:
        """All servers for which something waits, told every few seconds; for those not among them nothing."""

    def problem(self, sentence: str, error: BaseException | None) -> None:
        """Something the operator should read."""


class Silent:
    """Nobody counts."""

    def transaction_ended(
        self, destination: str, outcome: Outcome, pdus: int, edus: int, seconds: float
    ) -> None: ...

    def left_queue(self, destination: str, fate: Fate, count: int) -> None: ...

    def state_changed(self, destination: str, state: State) -> None: ...

    def objected(self, destination: str, event_id: str, error: str) -> None: ...

    def depths(self, waiting: Sequence[Waiting]) -> None: ...

    def problem(self, sentence: str, error: BaseException | None) -> None: ...
