"""When a server that failed is tried again, and what is remembered of that over a restart."""

from typing import Final

from federation.backoff import LONGEST_MS, delay_ms
from federation.destination_messages import Failed, Outage

OUTAGE_MS: Final = 3_600_000
"""After so long without success, catching up takes the place of sending everything in its turn."""
SOONEST_RETRY_MS: Final = 5_000
"""Between two attempts, however often the server is heard from: it may reach us while we don't reach it."""
LONGEST_BUSY_MS: Final = 60_000


class RetrySchedule:
    def __init__(self, outage: Outage | None = None) -> None:
        self.failures = outage.failures if outage else 0
        self.failing_since = outage.failing_since if outage else None
        self.retry_at = outage.retry_at if outage else 0
        self._not_before = 0
        self._attempted_at = 0

    def attempted(self, now_ms: int) -> None:
        self._attempted_at = now_ms

    def away(self, failed: Failed, now_ms: int) -> Outage:
        """It does not answer, or not us."""
        self.failures += 1
        since = self.failing_since = now_ms if self.failing_since is None else self.failing_since
        self._wait(failed, delay_ms(self.failures, failed.jitter), now_ms)
        return Outage(since, self.failures, self.retry_at)

    def busy(self, failed: Failed, now_ms: int) -> None:
        """It answers that it has too much to do. That is no outage, and not worth remembering."""
        self.failures += 1
        self._wait(failed, min(delay_ms(self.failures, failed.jitter), LONGEST_BUSY_MS), now_ms)
        self.failing_since = None

    def heard(self) -> None:
        """The schedule starts anew, and the next attempt is soon; but not before the server's own word for
        it. Since when it fails is not forgotten: hearing is not reaching."""
        self.failures = 0
        self.retry_at = min(self.retry_at, max(self._attempted_at + SOONEST_RETRY_MS, self._not_before))

    def well(self) -> None:
        """It answers, whatever it says."""
        self.failures = 0
        self.failing_since = None

    def is_due(self, now_ms: int) -> bool:
        return now_ms >= self.retry_at

    def is_long(self, now_ms: int) -> bool:
        """Whether it has failed for so long that what waits for it is not held any more."""
        return self.failing_since is not None and now_ms - self.failing_since >= OUTAGE_MS

    def _wait(self, failed: Failed, wait: int, now_ms: int) -> None:
        # The peer's word on when to come back counts, within reason.
        self._not_before = now_ms + min(failed.failure.retry_after_ms or 0, LONGEST_MS)
        self.retry_at = max(now_ms + wait, self._not_before)
