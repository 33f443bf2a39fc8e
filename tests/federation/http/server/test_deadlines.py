import itertools

import pytest

from federation.http.server.capacity import Limits
from federation.http.server.deadlines import (
    EXPIRY_EFFECTS,
    NO_DEADLINE,
    TRANSITIONS,
    ConnectionEvent,
    Deadlines,
    Effect,
    Phase,
)

LIMITS = Limits(
    max_head=100,
    head_timeout=10,
    body_timeout=50,
    body_progress=10,
    body_progress_timeout=20,
    idle_timeout=70,
    stall_timeout=60,
    linger_timeout=2,
)
# The shortest way into each phase.
WAYS: dict[Phase, list[ConnectionEvent]] = {
    Phase.OPENING: [],
    Phase.HEAD: [ConnectionEvent.BYTES],
    Phase.ANSWERING: [ConnectionEvent.REQUEST],
    Phase.BODY: [ConnectionEvent.REQUEST, ConnectionEvent.WAITS_FOR_BODY],
    Phase.IDLE: [ConnectionEvent.REQUEST, ConnectionEvent.ANSWERED],
    Phase.LEAVING: [ConnectionEvent.LAST_ANSWER],
}


def in_phase(phase: Phase, now: float = 0.0) -> Deadlines:
    deadlines = Deadlines(LIMITS, now)
    for happening in WAYS[phase]:
        assert deadlines.receive(happening, now) is Effect.NOTHING
    assert deadlines.phase is phase
    return deadlines


@pytest.mark.parametrize(("phase", "happening"), list(itertools.product(Phase, ConnectionEvent)))
def test_every_happening_in_every_phase_does_what_the_table_says(
    phase: Phase, happening: ConnectionEvent
) -> None:
    """What the table does not list leaves the phase as it is, and nothing fails."""
    deadlines = in_phase(phase)
    effect = deadlines.receive(happening, 1.0)
    assert effect is Effect.NOTHING
    assert deadlines.phase is TRANSITIONS.get((phase, happening), phase)


@pytest.mark.parametrize(
    ("phase", "seconds"),
    [
        (Phase.OPENING, 10),
        (Phase.HEAD, 10),
        (Phase.ANSWERING, NO_DEADLINE),
        (Phase.BODY, 20),
        (Phase.IDLE, 70),
        (Phase.LEAVING, 2),
    ],
)
def test_every_phase_has_its_time(phase: Phase, seconds: float) -> None:
    """ANSWERING is our time, not the peer's, and has no end."""
    assert in_phase(phase, 1000.0).deadline == 1000.0 + seconds


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ANSWERING])
def test_a_phase_that_lasts_too_long_ends_as_the_table_says(phase: Phase) -> None:
    """Once, and not before its time."""
    deadlines = in_phase(phase)
    until = deadlines.deadline
    assert deadlines.receive(ConnectionEvent.DEADLINE, until - 0.001) is Effect.NOTHING
    assert deadlines.receive(ConnectionEvent.DEADLINE, until) is EXPIRY_EFFECTS[phase]
    assert deadlines.deadline == NO_DEADLINE
    assert deadlines.receive(ConnectionEvent.DEADLINE, until + 1) is Effect.NOTHING


def test_a_head_may_not_be_dribbled() -> None:
    """The time for a head runs from its first byte; more bytes do not prolong it."""
    deadlines = in_phase(Phase.HEAD)
    for second in range(1, 10):
        assert deadlines.receive(ConnectionEvent.BYTES, second, 1) is Effect.NOTHING
    assert deadlines.deadline == 10


def test_the_time_for_a_head_begins_with_its_first_byte() -> None:
    """Not with the answer before: that time is the longer one of an idle connection."""
    deadlines = in_phase(Phase.IDLE)
    deadlines.receive(ConnectionEvent.BYTES, 69.0, 1)
    assert deadlines.deadline == 79.0


@pytest.mark.parametrize("phase", [Phase.OPENING, Phase.HEAD, Phase.IDLE])
def test_a_head_that_grows_too_large_is_refused_while_it_grows(phase: Phase) -> None:
    """At the first byte too many, whether in one piece or in several."""
    deadlines = in_phase(phase)
    assert deadlines.receive(ConnectionEvent.BYTES, 0.0, 100) is Effect.NOTHING
    assert deadlines.receive(ConnectionEvent.BYTES, 0.0, 1) is Effect.REFUSE_HEAD
    assert in_phase(phase).receive(ConnectionEvent.BYTES, 0.0, 101) is Effect.REFUSE_HEAD


def test_an_answer_starts_the_count_anew() -> None:
    """A connection that is kept may send many heads, each of its full size."""
    deadlines = in_phase(Phase.ANSWERING)
    for _ in range(3):
        deadlines.receive(ConnectionEvent.ANSWERED, 0.0)
        assert deadlines.receive(ConnectionEvent.BYTES, 0.0, 100) is Effect.NOTHING
        assert deadlines.receive(ConnectionEvent.REQUEST, 0.0, 0) is Effect.NOTHING


def test_a_body_has_to_make_progress() -> None:
    """In each stretch so many bytes; whoever brings fewer has stopped."""
    deadlines = in_phase(Phase.BODY)
    deadlines.receive(ConnectionEvent.BYTES, 1.0, 10)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 20.0) is Effect.NOTHING
    assert deadlines.deadline == 40.0
    deadlines.receive(ConnectionEvent.BYTES, 39.0, 9)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 40.0) is Effect.FAIL_BODY


def test_progress_does_not_prolong_a_body_for_ever() -> None:
    """The whole body has its own time."""
    deadlines = in_phase(Phase.BODY)
    for now in (20.0, 40.0):
        deadlines.receive(ConnectionEvent.BYTES, now - 1, 1000)
        assert deadlines.receive(ConnectionEvent.DEADLINE, now) is Effect.NOTHING
    assert deadlines.deadline == 50.0
    deadlines.receive(ConnectionEvent.BYTES, 49.0, 1000)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 50.0) is Effect.FAIL_BODY


def test_the_bytes_of_the_head_are_no_progress_of_the_body() -> None:
    """A large head does not buy time."""
    deadlines = Deadlines(LIMITS, 0.0)
    deadlines.receive(ConnectionEvent.REQUEST, 0.0, 90)
    deadlines.receive(ConnectionEvent.WAITS_FOR_BODY, 0.0)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 20.0) is Effect.FAIL_BODY


@pytest.mark.parametrize("phase", list(Phase))
def test_a_peer_that_does_not_read_is_cut_off_in_every_phase(phase: Phase) -> None:
    """Unless the phase ends before."""
    deadlines = in_phase(phase)
    before = deadlines.deadline
    deadlines.receive(ConnectionEvent.STALLED, 5.0)
    assert deadlines.deadline == min(before, 65.0)
    if before > 65.0:
        assert deadlines.receive(ConnectionEvent.DEADLINE, 65.0) is Effect.ABORT


def test_a_peer_that_reads_again_is_forgiven() -> None:
    """Only the time without any reading counts."""
    deadlines = in_phase(Phase.ANSWERING)
    deadlines.receive(ConnectionEvent.STALLED, 0.0)
    deadlines.receive(ConnectionEvent.FLOWING, 59.0)
    assert deadlines.deadline == NO_DEADLINE
    assert deadlines.receive(ConnectionEvent.DEADLINE, 60.0) is Effect.NOTHING
