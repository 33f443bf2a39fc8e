"""EDUs on their way to one server that are not worth a row in the database: typing, receipts, presence.

A newer one takes the place of the one that waits under the same name, and what has waited too long is not
sent at all. Of too many the oldest go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.outbox.send_queue import MOST_EPHEMERAL, EduRef
from federation.transactions.edu_making import Outgoing

MOST_HELD: Final = 2 * MOST_EPHEMERAL
"""More than can wait in a `SendQueue` and be in flight at the same time."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    edu: Outgoing
    until_ms: int


class PassingEdus:
    """Positions are its own: they say nothing of those in the database."""

    def __init__(self) -> None:
        self._last = 0
        self._held: dict[int, _Waiting] = {}
        # Of those that may still be replaced.
        self._by_name: dict[str, int] = {}

    def put(self, edu: Outgoing, now_ms: int) -> EduRef | None:
        """What has been queued; None when it has taken another one's place."""
        assert edu.lives_ms is not None, "what must arrive is queued in the database"
        position = self._by_name.get(edu.replaces) if edu.replaces is not None else None
        waiting = _Waiting(edu, now_ms + edu.lives_ms)
        if position is not None:
            self._held[position] = waiting
            return None
        if len(self._held) >= MOST_HELD:
            self.forget([EduRef(next(iter(self._held)), ephemeral=True)])
        self._last += 1
        self._held[self._last] = waiting
        if edu.replaces is not None:
            self._by_name[edu.replaces] = self._last
        return EduRef(self._last, ephemeral=True)

    def take(self, refs: Iterable[EduRef], now_ms: int) -> list[tuple[str, Mapping[str, Any]]]:
        """What is to be sent of these now: type and content. From now on nothing takes their places."""
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
        name = waiting.edu.replaces
        if name is not None and self._by_name.get(name) == position:
            del self._by_name[name]
