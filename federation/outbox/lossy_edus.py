"""Queued EDUs for one server that are kept in memory only: typing, receipts and presence.

A newer EDU coalesce_key a queued one with the same key, expired EDUs are not sent, and beyond a limit the
oldest are dropped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.outbox.send_queue import MOST_EPHEMERAL, EduRef
from federation.transactions.outgoing_edus import OutgoingEdu

MOST_HELD: Final = 2 * MOST_EPHEMERAL
"""More than can be queued in a `SendQueue` and in flight at the same time."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    edu: OutgoingEdu
    until_ms: int


class PassingEdus:
    """Its positions are independent of those in the database."""

    def __init__(self) -> None:
        self._last = 0
        self._held: dict[int, _Waiting] = {}
        # The positions of EDUs that may still be replaced.
        self._by_name: dict[str, int] = {}

    def put(self, edu: OutgoingEdu, now_ms: int) -> EduRef | None:
        """Add an EDU and return its reference, or None if it replaced a queued one."""
        assert edu.max_age_ms is not None, "an EDU that must be delivered is queued in the database"
        position = self._by_name.get(edu.coalesce_key) if edu.coalesce_key is not None else None
        waiting = _Waiting(edu, now_ms + edu.max_age_ms)
        if position is not None:
            self._held[position] = waiting
            return None
        if len(self._held) >= MOST_HELD:
            self.forget([EduRef(next(iter(self._held)), ephemeral=True)])
        self._last += 1
        self._held[self._last] = waiting
        if edu.coalesce_key is not None:
            self._by_name[edu.coalesce_key] = self._last
        return EduRef(self._last, ephemeral=True)

    def take(self, refs: Iterable[EduRef], now_ms: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Return type and content of those EDUs that have not expired. They can no longer be replaced."""
        taken = []
        for ref in refs:
            waiting = self._held.get(ref.position)
            if waiting is not None:
                self._unname(ref.position, waiting)
                if waiting.until_ms > now_ms:
                    taken.append((waiting.edu.edu_type, waiting.edu.content))
        return taken

    def forget(self, refs: Iterable[EduRef]) -> None:
        for ref in refs:
            waiting = self._held.pop(ref.position, None)
            if waiting is not None:
                self._unname(ref.position, waiting)

    def __len__(self) -> int:
        return len(self._held)

    def _unname(self, position: int, waiting: _Waiting) -> None:
        name = waiting.edu.coalesce_key
        if name is not None and self._by_name.get(name) == position:
            del self._by_name[name]
