"""When a server that failed is tried again, and what is remembered of that over a restart.

When other servers were last reached and heard from, and why not: what a person is shown.

Kept by each process for itself and gone with it. What must survive, since when a server does not answer, is
in the database.
"""

from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from federation.outbox.messages import Failed, Outage

FIRST_MS: Final = 5_000
LONGEST_MS: Final = 3_600_000
OUTAGE_MS: Final = 3_600_000
"""After so long without success, catching up takes the place of sending everything in its turn."""
SOONEST_RETRY_MS: Final = 5_000
"""Between two attempts, however often the server is heard from: it may reach us while we don't reach it."""
LONGEST_BUSY_MS: Final = 60_000


def delay_ms(failures: int, jitter: float) -> int:
    """After so many failures in a row: 5 seconds, doubled each time, up to an hour.

    `jitter`, a random number between 0 and 1, moves it by up to a quarter either way: all servers that a
    restart has cut off would come back at the same moment otherwise.
    """
    assert failures > 0, "nothing has failed"
    assert 0 <= jitter <= 1, "jitter is a share"
    doubled = FIRST_MS * 2 ** min(failures - 1, 20)
    return min(int(min(doubled, LONGEST_MS) * (0.75 + jitter / 2)), LONGEST_MS)


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


MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Contact:
    """Times are milliseconds since 1970; None: not since this process runs."""

    reached_at: int | None = None
    """It answered a transaction with 200."""
    failed_at: int | None = None
    failure: str | None = None
    """What comes after the server's name in a sentence. It stays when the next attempt succeeds."""
    heard_at: int | None = None
    """An authenticated request came from it."""


NO_CONTACT: Final = Contact()


class Contacts:
    def __init__(self) -> None:
        self._contacts: LRUCache[str, Contact] = LRUCache(MOST)

    def reached(self, server: str, now_ms: int) -> None:
        last = self.of(server)
        self._contacts[server] = Contact(now_ms, last.failed_at, last.failure, last.heard_at)

    def failed(self, server: str, now_ms: int, failure: str) -> None:
        last = self.of(server)
        self._contacts[server] = Contact(last.reached_at, now_ms, failure, last.heard_at)

    def heard(self, server: str, now_ms: int) -> None:
        # With each request that comes.
        known = self._contacts.get(server) or NO_CONTACT
        self._contacts[server] = Contact(known.reached_at, known.failed_at, known.failure, now_ms)

    def of(self, server: str) -> Contact:
        return self._contacts.get(server) or NO_CONTACT

    def servers(self) -> frozenset[str]:
        return frozenset(self._contacts)
