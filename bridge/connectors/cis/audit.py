"""Audit entries for agent events.

The audit has a small, searchable set of outcomes. A verdict that has no outcome of its own is described in
the detail. An entry never holds content: no prompt, no answer, no report.
"""

from collections.abc import Mapping
from typing import Final

from bridge.connectors.cis.event_record import EventRecord, Verdict
from federation.peers import audit
from federation.peers.audit import EVERYBODY, Direction, Ending, Entry, Named

UNREADABLE: Final = "io.cis"
"""The act of an entry whose event has no readable type."""

_ENDINGS: Final[Mapping[Verdict, Ending]] = {
    Verdict.TAKEN: Ending.DONE,
    Verdict.KEPT: Ending.DONE,
    Verdict.REPEATED: Ending.DONE,
    Verdict.INVALID: Ending.REFUSED,
    Verdict.FORBIDDEN: Ending.REFUSED,
    Verdict.TOO_LARGE: Ending.REFUSED,
    Verdict.TOO_FAST: Ending.RATE_LIMITED,
    Verdict.UNAVAILABLE: Ending.FAILED,
    Verdict.SENT: Ending.DONE,
    Verdict.FAILED: Ending.FAILED,
}
# These replace the record's own detail: entries with equal text are merged into one row with a count.
_DETAILS: Final[Mapping[Verdict, str]] = {
    Verdict.KEPT: "unknown type: stored, not acted on",
    Verdict.REPEATED: "received before",
    Verdict.TOO_FAST: "rate limit exceeded",
    Verdict.UNAVAILABLE: "could not be stored",
}


def audit_entry(record: EventRecord, now_ms: int) -> Entry:
    """Return the entry for a record. Text from a peer is cut to what the row can hold."""
    ending = _ENDINGS[record.verdict]
    peer = record.peer
    if peer is None and record.is_outgoing:
        peer = EVERYBODY
    if peer is None and ending is Ending.REFUSED:
        ending = Ending.UNAUTHENTICATED
    return Entry(
        now_ms,
        audit.cut(peer),
        Direction.OUT if record.is_outgoing else Direction.IN,
        audit.cut(record.type) or UNREADABLE,
        ending,
        Named(audit.cut(record.user), audit.cut(record.room_id), audit.cut(record.subject)),
        audit.cut_detail(_DETAILS.get(record.verdict, record.detail)),
    )
