"""When a failed server is retried, and when servers were last in contact.

The contact times are shown to operators. Each process keeps its own, in memory. The start of an outage has
to survive a restart and is stored in the database.
"""

from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from federation.outbox.messages import Outage, TransactionFailure

FIRST_DELAY_MS: Final = 5_000
MAX_DELAY_MS: Final = 3_600_000
OUTAGE_MS: Final = 3_600_000
"""After so long without success the queue is counted again, and long queues are not sent completely."""
MIN_RETRY_INTERVAL_MS: Final = 5_000
"""Minimum time between two attempts, however many requests the server sends: it may reach this server
while this server cannot reach it."""
MAX_BUSY_DELAY_MS: Final = 60_000


def delay_ms(failures: int, jitter: float) -> int:
    """Return the delay after so many failures in a row: 5 seconds, doubled each time, up to an hour.

    `jitter`, a random number between 0 and 1, changes it by up to a quarter in either direction: otherwise
    all destinations that fail at the same moment would be retried at the same moment.
    """
    assert failures > 0, "a delay follows a failure"
    assert 0 <= jitter <= 1, "jitter is between 0 and 1"
    doubled = FIRST_DELAY_MS * 2 ** min(failures - 1, 20)
    return min(int(min(doubled, MAX_DELAY_MS) * (0.75 + jitter / 2)), MAX_DELAY_MS)


class RetrySchedule:
    def __init__(self, outage: Outage | None = None) -> None:
        self.failures = outage.failures if outage else 0
        self.failing_since = outage.failing_since if outage else None
        self.retry_at = outage.retry_at if outage else 0
        self._not_before = 0
        self._attempted_at = 0

    def attempted(self, now_ms: int) -> None:
        self._attempted_at = now_ms

    def unavailable(self, failed: TransactionFailure, now_ms: int) -> Outage:
        """Record that the server did not respond, or refused this server. Return the outage to be stored."""
        self.failures += 1
        since = self.failing_since = now_ms if self.failing_since is None else self.failing_since
        self._wait(failed, delay_ms(self.failures, failed.jitter), now_ms)
        return Outage(since, self.failures, self.retry_at)

    def busy(self, failed: TransactionFailure, now_ms: int) -> None:
        """Record that the server responded with 429. That is not an outage and is not stored."""
        self.failures += 1
        self._wait(failed, min(delay_ms(self.failures, failed.jitter), MAX_BUSY_DELAY_MS), now_ms)
        self.failing_since = None

    def request_received(self) -> None:
        """Record a request from the server: back-off starts again, and the next attempt is soon, but not
        before the server's `retry_after_ms`. `failing_since` stays: the server may still be unreachable.
        """
        self.failures = 0
        self.retry_at = min(self.retry_at, max(self._attempted_at + MIN_RETRY_INTERVAL_MS, self._not_before))

    def succeeded(self) -> None:
        """Record that the server responded, with whatever result."""
        self.failures = 0
        self.failing_since = None

    def is_due(self, now_ms: int) -> bool:
        return now_ms >= self.retry_at

    def is_long_outage(self, now_ms: int) -> bool:
        """Whether the server has failed for so long that its queue is no longer held in memory."""
        return self.failing_since is not None and now_ms - self.failing_since >= OUTAGE_MS

    def _wait(self, failed: TransactionFailure, wait: int, now_ms: int) -> None:
        # The peer's `retry_after_ms` is respected up to a limit.
        self._not_before = now_ms + min(failed.failure.retry_after_ms or 0, MAX_DELAY_MS)
        self.retry_at = max(now_ms + wait, self._not_before)


MAX_CONTACTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Contact:
    """The last contacts with a server. Times are milliseconds since 1970; None: not since the process
    started."""

    reached_at: int | None = None
    """It responded to a transaction with 200."""
    failed_at: int | None = None
    failure: str | None = None
    """The predicate of a sentence with the server's name as subject. It stays after a later success."""
    request_received_at: int | None = None
    """It sent this server an authenticated request."""


NO_CONTACT: Final = Contact()


class Contacts:
    def __init__(self) -> None:
        self._contacts: LRUCache[str, Contact] = LRUCache(MAX_CONTACTS)

    def reached(self, server: str, now_ms: int) -> None:
        last = self.of(server)
        self._contacts[server] = Contact(now_ms, last.failed_at, last.failure, last.request_received_at)

    def failed(self, server: str, now_ms: int, failure: str) -> None:
        last = self.of(server)
        self._contacts[server] = Contact(last.reached_at, now_ms, failure, last.request_received_at)

    def request_received(self, server: str, now_ms: int) -> None:
        # Called for each incoming request, so it must be fast.
        known = self._contacts.get(server) or NO_CONTACT
        self._contacts[server] = Contact(known.reached_at, known.failed_at, known.failure, now_ms)

    def of(self, server: str) -> Contact:
        return self._contacts.get(server) or NO_CONTACT

    def servers(self) -> frozenset[str]:
        return frozenset(self._contacts)
