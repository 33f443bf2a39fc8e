"""When other servers were last reached and heard from, and why not: what a person is shown.

Kept by each process for itself and gone with it. What must survive, since when a server does not answer, is
in the database.
"""

from dataclasses import dataclass
from typing import Final

from federation.bounded_cache import BoundedCache

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
        self._contacts: BoundedCache[str, Contact] = BoundedCache(MOST)

    def reached(self, server: str, now_ms: int) -> None:
        last = self.of(server)
        self._contacts.put(server, Contact(now_ms, last.failed_at, last.failure, last.heard_at))

    def failed(self, server: str, now_ms: int, failure: str) -> None:
        last = self.of(server)
        self._contacts.put(server, Contact(last.reached_at, now_ms, failure, last.heard_at))

    def heard(self, server: str, now_ms: int) -> None:
        # With each request that comes.
        known = self._contacts.get(server) or NO_CONTACT
        self._contacts.put(server, Contact(known.reached_at, known.failed_at, known.failure, now_ms))

    def of(self, server: str) -> Contact:
        return self._contacts.get(server) or NO_CONTACT

    def servers(self) -> frozenset[str]:
        return frozenset(self._contacts)
