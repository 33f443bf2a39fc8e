"""Audit entries for agent events."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.audit import audit_entry
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.settings import ACTIONS
from federation.matrix.identifiers import MAX_BYTES, is_server_name
from federation.peers.audit import ALL_PEERS, MAX_DETAIL_LENGTH, AuditOutcome, Direction
from tests.support.agents import NOW

REQUEST = "io.cis.agent.task.request"


@pytest.mark.parametrize(
    ("act", "peer", "direction", "outcome", "detail"),
    [
        (EventRecord("living", REQUEST, Verdict.TAKEN), "living", Direction.IN, AuditOutcome.DONE, None),
        (
            EventRecord("living", REQUEST, Verdict.KEPT),
            "living",
            Direction.IN,
            AuditOutcome.DONE,
            "unknown type: stored, not acted on",
        ),
        (
            EventRecord("living", REQUEST, Verdict.REPEATED),
            "living",
            Direction.IN,
            AuditOutcome.DONE,
            "received before",
        ),
        (
            EventRecord("living", REQUEST, Verdict.FORBIDDEN, detail="Not there."),
            "living",
            Direction.IN,
            AuditOutcome.REFUSED,
            "Not there.",
        ),
        (
            EventRecord(None, "", Verdict.FORBIDDEN, detail="Who?"),
            None,
            Direction.IN,
            AuditOutcome.UNAUTHENTICATED,
            "Who?",
        ),
        (
            EventRecord("living", REQUEST, Verdict.TOO_FAST, detail="RateLimited(37)"),
            "living",
            Direction.IN,
            AuditOutcome.RATE_LIMITED,
            "rate limit exceeded",
        ),
        (EventRecord("living", REQUEST, Verdict.SENT), "living", Direction.OUT, AuditOutcome.DONE, None),
        (EventRecord(None, REQUEST, Verdict.SENT), ALL_PEERS, Direction.OUT, AuditOutcome.DONE, None),
        (
            EventRecord("living", REQUEST, Verdict.FAILED, detail="It is away."),
            "living",
            Direction.OUT,
            AuditOutcome.FAILED,
            "It is away.",
        ),
    ],
)
def test_the_entry_for_a_record(
    act: EventRecord, peer: str | None, direction: Direction, outcome: AuditOutcome, detail: str | None
) -> None:
    """With the outcomes that the audit already has."""
    entry = audit_entry(act, NOW)
    assert (entry.at_ms, entry.peer, entry.direction) == (NOW, peer, direction)
    assert (entry.outcome, entry.detail) == (outcome, detail)
    assert entry.action == (act.type or ACTIONS)


def test_every_verdict_has_an_outcome() -> None:
    """A new verdict needs an entry in the table."""
    for verdict in Verdict:
        assert audit_entry(EventRecord("living", REQUEST, verdict), NOW).outcome in AuditOutcome


def test_the_name_for_all_peers_is_no_server_name() -> None:
    """So no peer can use it."""
    assert not is_server_name(ALL_PEERS)


_ANY: Any = st.none() | st.text(st.characters(), max_size=2_000)


@given(_ANY, st.text(st.characters()), st.sampled_from(Verdict), _ANY, _ANY, _ANY, _ANY)
def test_any_record_fits_into_a_row(
    peer: str | None, type_: str, verdict: Verdict, user: str | None, room: str | None, about: str, detail: str
) -> None:
    """Of any length, with NUL and surrogates."""
    entry = audit_entry(EventRecord(peer, type_, verdict, user, room, about, detail), NOW)
    for text in (
        entry.peer,
        entry.action,
        entry.identifiers.user_id,
        entry.identifiers.room_id,
        entry.identifiers.subject,
    ):
        if text is not None:
            assert len(text) <= MAX_BYTES
            assert "\0" not in text
            text.encode()
    if entry.detail is not None:
        assert len(entry.detail) <= MAX_DETAIL_LENGTH
        assert "\0" not in entry.detail
        entry.detail.encode()
