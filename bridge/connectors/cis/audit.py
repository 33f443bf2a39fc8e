"""Audit entries for agent events.

The audit has a small, searchable set of outcomes. A verdict that has no outcome of its own is described in
the detail. An entry never holds content: no prompt, no answer, no report.
"""

from collections.abc import Mapping
from typing import Final

from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.settings import ACTIONS
from federation.peers import audit
from federation.peers.audit import ALL_PEERS, AuditEntry, AuditOutcome, Direction, Identifiers

_OUTCOMES: Final[Mapping[Verdict, AuditOutcome]] = {
    Verdict.TAKEN: AuditOutcome.DONE,
    Verdict.KEPT: AuditOutcome.DONE,
    Verdict.REPEATED: AuditOutcome.DONE,
    Verdict.INVALID: AuditOutcome.REFUSED,
    Verdict.FORBIDDEN: AuditOutcome.REFUSED,
    Verdict.TOO_LARGE: AuditOutcome.REFUSED,
    Verdict.TOO_FAST: AuditOutcome.RATE_LIMITED,
    Verdict.UNAVAILABLE: AuditOutcome.FAILED,
    Verdict.SENT: AuditOutcome.DONE,
    Verdict.FAILED: AuditOutcome.FAILED,
}
# These replace the record's own detail: entries with equal text are merged into one row with a count.
_DETAILS: Final[Mapping[Verdict, str]] = {
    Verdict.KEPT: "unknown type: stored, not acted on",
    Verdict.REPEATED: "received before",
    Verdict.TOO_FAST: "rate limit exceeded",
    Verdict.UNAVAILABLE: "could not be stored",
}


def audit_entry(record: EventRecord, now_ms: int) -> AuditEntry:
    """Return the entry for a record. Text from a peer is cut to what the row can hold."""
    outcome = _OUTCOMES[record.verdict]
    peer = record.peer
    if peer is None and record.is_outgoing:
        peer = ALL_PEERS
    if peer is None and outcome is AuditOutcome.REFUSED:
        outcome = AuditOutcome.UNAUTHENTICATED
    return AuditEntry(
        now_ms,
        audit.truncate(peer),
        Direction.OUT if record.is_outgoing else Direction.IN,
        audit.truncate(record.type) or ACTIONS,
        outcome,
        Identifiers(audit.truncate(record.user), audit.truncate(record.room_id), audit.truncate(record.subject)),
        audit.truncate_detail(_DETAILS.get(record.verdict, record.detail)),
    )
