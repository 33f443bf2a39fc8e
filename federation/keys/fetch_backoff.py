"""When a server may be asked for its keys again: an answer without what was looked for counts as none.

Anybody can write a key id that does not exist into an event or a request; that must not make this node
hammer a third server. A fetch that brought what was needed opens the gate at once, so that a server may
rotate its keys in the middle of a conversation.
"""

from dataclasses import dataclass
from typing import Final

MIN_DELAY: Final = 1.0
MAX_DELAY: Final = 60.0
"""Seconds. It is also the longest that a server which comes back, or a new key, has to wait for us."""


@dataclass(frozen=True, slots=True)
class FetchBackoff:
    """One server's. Times are seconds of a clock that never runs backwards."""

    failures: int = 0
    closed_until: float = 0.0

    def is_open(self, now: float) -> bool:
        return now >= self.closed_until

    def after(self, now: float, *, found: bool) -> "FetchBackoff":
        """The gate once a fetch has ended."""
        if found:
            return FetchBackoff()
        wait = min(MIN_DELAY * 2 ** min(self.failures, 16), MAX_DELAY)
        return FetchBackoff(self.failures + 1, now + wait)
