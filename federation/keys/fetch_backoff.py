"""The back-off before the keys of a server are fetched again after a fetch that did not return the needed
keys.

Any server can write a key id that does not exist into an event or a request; that must not make this node
send many requests to a third server. A successful fetch resets the back-off, so that a server may rotate its
keys at any time.
"""

from dataclasses import dataclass
from typing import Final

MIN_DELAY: Final = 1.0
MAX_DELAY: Final = 60.0
"""Seconds. It is also the longest time until this node notices a new key, or a server that is back online."""


@dataclass(frozen=True, slots=True)
class FetchBackoff:
    """The back-off of one server. Times are seconds of a monotonic clock."""

    failures: int = 0
    retry_at: float = 0.0

    def may_fetch(self, now: float) -> bool:
        return now >= self.retry_at

    def after_fetch(self, now: float, *, found: bool) -> "FetchBackoff":
        """The back-off after a fetch has ended."""
        if found:
            return FetchBackoff()
        delay = min(MIN_DELAY * 2 ** min(self.failures, 16), MAX_DELAY)
        return FetchBackoff(self.failures + 1, now + delay)
