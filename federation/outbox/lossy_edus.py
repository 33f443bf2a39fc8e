"""Queued EDUs for one server that are kept in memory only: typing, receipts and presence.

A newer EDU coalesce_key a queued one with the same key, expired EDUs are not sent, and beyond a limit the
oldest are dropped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.outbox.send_queue import MAX_EPHEMERAL, EduRef
from federation.transactions.outgoing_edus import OutgoingEdu

MAX_HELD: Final = 2 * MAX_EPHEMERAL
"""More than can be queued in a `SendQueue` and in flight at the same time."""


@dataclass(frozen=True, slots=True)
class _QueuedEdu:
    edu: OutgoingEdu
    until_ms: int


class LossyEdus:
    """Its positions are independent of those in the database."""

    def __init__(self) -> None:
        self._last = 0
        self._queued: dict[int, _QueuedEdu] = {}
        # The positions of EDUs that may still be replaced.
        self._by_key: dict[str, int] = {}

    def put(self, edu: OutgoingEdu, now_ms: int) -> EduRef | None:
        """Add an EDU and return its reference, or None if it replaced a queued one."""
        assert edu.max_age_ms is not None, "an EDU that must be delivered is queued in the database"
        position = self._by_key.get(edu.coalesce_key) if edu.coalesce_key is not None else None
        queued = _QueuedEdu(edu, now_ms + edu.max_age_ms)
        if position is not None:
            self._queued[position] = queued
            return None
        if len(self._queued) >= MAX_HELD:
            self.remove([EduRef(next(iter(self._queued)), ephemeral=True)])
        self._last += 1
        self._queued[self._last] = queued
        if edu.coalesce_key is not None:
            self._by_key[edu.coalesce_key] = self._last
        return EduRef(self._last, ephemeral=True)

    def take(self, refs: Iterable[EduRef], now_ms: int) -> list[tuple[str, Mapping[str, Any]]]:
        """Return type and content of those EDUs that have not expired. They can no longer be replaced."""
        taken = []
        for ref in refs:
            queued = self._queued.get(ref.position)
            if queued is not None:
                self._release_key(ref.position, queued)
                if queued.until_ms > now_ms:
                    taken.append((queued.edu.edu_type, queued.edu.content))
        return taken

    def remove(self, refs: Iterable[EduRef]) -> None:
        for ref in refs:
            queued = self._queued.pop(ref.position, None)
            if queued is not None:
                self._release_key(ref.position, queued)

    def __len__(self) -> int:
        return len(self._queued)

    def _release_key(self, position: int, queued: _QueuedEdu) -> None:
        key = queued.edu.coalesce_key
        if key is not None and self._by_key.get(key) == position:
            del self._by_key[key]
