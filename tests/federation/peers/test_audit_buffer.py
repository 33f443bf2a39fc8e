"""The buffer of audit entries."""

from dataclasses import replace

from federation.peers.audit import AuditBuffer, AuditEntry, AuditOutcome, Direction, Identifiers
from federation.peers.limits import Rate

NOW = 1000.0
READ = AuditEntry(1, "a.example", Direction.IN, "state", AuditOutcome.DONE)
STRANGER = AuditEntry(2, None, Direction.IN, "event", AuditOutcome.UNAUTHENTICATED, detail="192.0.2.1: 401")
LIMITED = AuditEntry(3, "a.example", Direction.IN, "state", AuditOutcome.RATE_LIMITED, detail="429")


def at(entry: AuditEntry, at_ms: int) -> AuditEntry:
    return replace(entry, at_ms=at_ms)


def test_entries_are_taken_once_and_in_order() -> None:
    """Successful requests are separate entries, even if they are equal."""
    buffer = AuditBuffer()
    noted = [at(READ, number) for number in range(5)]
    for entry in noted:
        buffer.add(entry, NOW)
    assert buffer.take().entries_to_write() == noted
    assert buffer.take().entries_to_write() == []


def test_a_repeated_refusal_is_one_entry() -> None:
    """With the time of the first one and a count; a different refusal is another entry."""
    buffer = AuditBuffer()
    for number in range(40):
        buffer.add(at(STRANGER, number), NOW)
        buffer.add(at(LIMITED, number), NOW)
    buffer.add(replace(STRANGER, detail="192.0.2.2: 401"), NOW)
    buffer.add(replace(STRANGER, detail=None), NOW)
    buffer.add(replace(STRANGER, detail=None), NOW)
    assert buffer.take().entries_to_write() == [
        replace(STRANGER, at_ms=0, detail="192.0.2.1: 401 (40 times)"),
        replace(LIMITED, at_ms=0, detail="429 (40 times)"),
        replace(STRANGER, detail="192.0.2.2: 401"),
        replace(STRANGER, detail="2 times"),
    ]


def test_refusals_of_authenticated_requests_are_separate_entries() -> None:
    """They have the identifiers of the request."""
    buffer = AuditBuffer()
    refused = replace(READ, outcome=AuditOutcome.REFUSED, detail="403")
    others = [replace(refused, identifiers=Identifiers(room_id=f"!{number}:a.example")) for number in range(3)]
    for entry in others:
        buffer.add(entry, NOW)
    assert buffer.take().entries_to_write() == others


def test_entries_beyond_the_limit_are_counted() -> None:
    """Their number is an entry, with the time of the last dropped one."""
    buffer = AuditBuffer(most=2)
    for number in range(5):
        buffer.add(at(READ, number), NOW)
    *kept, loss = buffer.take().entries_to_write()
    assert kept == [at(READ, 0), at(READ, 1)]
    assert (loss.at_ms, loss.action, loss.outcome, loss.detail) == (
        4,
        "audit",
        AuditOutcome.LOST,
        "3 entries were dropped because the buffer was full",
    )
    assert buffer.lost == 3
    assert buffer.take().entries_to_write() == []


def test_entries_of_unauthenticated_peers_are_rate_limited() -> None:
    """All of them together, even with different addresses; dropped ones are counted."""
    buffer = AuditBuffer(unauthenticated_rate=Rate(1, 3))
    for number in range(10):
        buffer.add(replace(STRANGER, detail=str(number)), NOW)
    buffer.add(READ, NOW)
    written = buffer.take().entries_to_write()
    assert [entry.detail for entry in written[:3]] == ["0", "1", "2"]
    assert written[3] == READ
    assert written[4].detail == "7 entries were dropped because the buffer was full"
    buffer.add(STRANGER, NOW + 1)
    assert buffer.take().entries_to_write() == [STRANGER]


def test_returned_entries_come_first() -> None:
    """With their counts; later entries follow as far as they fit."""
    buffer = AuditBuffer(most=3)
    for entry in (STRANGER, STRANGER, READ):
        buffer.add(entry, NOW)
    batch = buffer.take()
    for number in (7, 8, 9):
        buffer.add(at(READ, number), NOW)
    buffer.add(at(READ, 10), NOW)
    buffer.give_back(batch)
    *kept, loss = buffer.take().entries_to_write()
    assert kept == [replace(STRANGER, detail="192.0.2.1: 401 (2 times)"), READ, at(READ, 7)]
    assert loss.detail == "3 entries were dropped because the buffer was full"


def test_the_count_of_dropped_entries_survives_failed_writes() -> None:
    """However often writing fails."""
    buffer = AuditBuffer(most=1)
    for number in range(3):
        buffer.add(at(READ, number), NOW)
    for _ in range(5):
        buffer.give_back(buffer.take())
    written = buffer.take().entries_to_write()
    assert [entry.detail for entry in written] == [None, "2 entries were dropped because the buffer was full"]
    assert len(buffer) == 0
