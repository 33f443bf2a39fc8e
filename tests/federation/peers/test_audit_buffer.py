"""What waits to be written into the audit."""

from dataclasses import replace

from federation.peers.audit import AuditBuffer, Direction, Ending, Entry, Named
from federation.peers.limits import Rate

NOW = 1000.0
READ = Entry(1, "a.example", Direction.IN, "state", Ending.DONE)
STRANGER = Entry(2, None, Direction.IN, "event", Ending.UNAUTHENTICATED, detail="192.0.2.1: 401")
LIMITED = Entry(3, "a.example", Direction.IN, "state", Ending.RATE_LIMITED, detail="429")


def at(entry: Entry, at_ms: int) -> Entry:
    return replace(entry, at_ms=at_ms)


def test_what_is_noted_comes_out_in_its_order() -> None:
    """Each read as a row of its own, however alike they are; and once."""
    buffer = AuditBuffer()
    noted = [at(READ, number) for number in range(5)]
    for entry in noted:
        buffer.note(entry, NOW)
    assert buffer.take().to_be_written() == noted
    assert buffer.take().to_be_written() == []


def test_the_same_refusal_over_and_over_is_one_row() -> None:
    """With the time of the first one and a number; another refusal is another row."""
    buffer = AuditBuffer()
    for number in range(40):
        buffer.note(at(STRANGER, number), NOW)
        buffer.note(at(LIMITED, number), NOW)
    buffer.note(replace(STRANGER, detail="192.0.2.2: 401"), NOW)
    buffer.note(replace(STRANGER, detail=None), NOW)
    buffer.note(replace(STRANGER, detail=None), NOW)
    assert buffer.take().to_be_written() == [
        replace(STRANGER, at_ms=0, detail="192.0.2.1: 401 (40 times)"),
        replace(LIMITED, at_ms=0, detail="429 (40 times)"),
        replace(STRANGER, detail="192.0.2.2: 401"),
        replace(STRANGER, detail="2 times"),
    ]


def test_what_a_refused_server_wanted_is_not_thrown_together() -> None:
    """A refusal after it was clear who asks says what was asked for."""
    buffer = AuditBuffer()
    refused = replace(READ, ending=Ending.REFUSED, detail="403")
    others = [replace(refused, named=Named(room_id=f"!{number}:a.example")) for number in range(3)]
    for entry in others:
        buffer.note(entry, NOW)
    assert buffer.take().to_be_written() == others


def test_no_more_is_kept_than_fits_and_the_rest_is_counted() -> None:
    """Never in silence: the loss is a row, with the time of the last that was lost."""
    buffer = AuditBuffer(most=2)
    for number in range(5):
        buffer.note(at(READ, number), NOW)
    *kept, loss = buffer.take().to_be_written()
    assert kept == [at(READ, 0), at(READ, 1)]
    assert (loss.at_ms, loss.act, loss.ending, loss.detail) == (
        4,
        "audit",
        Ending.LOST,
        "3 acts were too many to be kept",
    )
    assert buffer.lost == 3
    assert buffer.take().to_be_written() == []


def test_strangers_cannot_fill_the_disk() -> None:
    """Each with another address, they get so many rows a second together, and are counted."""
    buffer = AuditBuffer(of_strangers=Rate(1, 3))
    for number in range(10):
        buffer.note(replace(STRANGER, detail=str(number)), NOW)
    buffer.note(READ, NOW)
    written = buffer.take().to_be_written()
    assert [entry.detail for entry in written[:3]] == ["0", "1", "2"]
    assert written[3] == READ
    assert written[4].detail == "7 acts were too many to be kept"
    buffer.note(STRANGER, NOW + 1)
    assert buffer.take().to_be_written() == [STRANGER]


def test_what_could_not_be_written_comes_first_the_next_time() -> None:
    """With its numbers; of what was noted since as much as fits."""
    buffer = AuditBuffer(most=3)
    for entry in (STRANGER, STRANGER, READ):
        buffer.note(entry, NOW)
    batch = buffer.take()
    for number in (7, 8, 9):
        buffer.note(at(READ, number), NOW)
    buffer.note(at(READ, 10), NOW)
    buffer.give_back(batch)
    *kept, loss = buffer.take().to_be_written()
    assert kept == [replace(STRANGER, detail="192.0.2.1: 401 (2 times)"), READ, at(READ, 7)]
    assert loss.detail == "3 acts were too many to be kept"


def test_a_loss_is_not_lost_when_it_cannot_be_written() -> None:
    """However often that is tried."""
    buffer = AuditBuffer(most=1)
    for number in range(3):
        buffer.note(at(READ, number), NOW)
    for _ in range(5):
        buffer.give_back(buffer.take())
    written = buffer.take().to_be_written()
    assert [entry.detail for entry in written] == [None, "2 acts were too many to be kept"]
    assert len(buffer) == 0
