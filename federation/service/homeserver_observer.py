"""What a homeserver tells those who count and log."""

from typing import Protocol

from federation.peer_errors import Outcome
from federation.service.client import ClientObserver
from federation.service.key_fetch import KeyObserver
from federation.service.outbox_observer import OutboxObserver, Silent
from federation.service.room_ports import RoomObserver


class HomeserverObserver(RoomObserver, OutboxObserver, ClientObserver, KeyObserver, Protocol):
    """Whoever counts what a homeserver does."""

    def kept_from(self, sentence: str) -> None:
        """Another server could not or would not give what was needed."""


class Unobserved(Silent):
    """Nobody counts."""

    def kept_from(self, sentence: str) -> None: ...

    def request_ended(self, endpoint: str, method: str, outcome: Outcome, seconds: float) -> None: ...

    def keys_fetched(self, source: str, outcome: Outcome) -> None: ...

    def event_received(self, verdict: str) -> None: ...

    def state_resolved(self, seconds: float) -> None: ...

    def event_sent(self) -> None: ...
