"""The state machine of deadlines."""

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
# The shortest sequence of events into each phase.
WAYS: dict[Phase, list[ConnectionEvent]] = {
    Phase.OPENING: [],
    Phase.HEAD: [ConnectionEvent.BYTES],
    Phase.ANSWERING: [ConnectionEvent.REQUEST],
    Phase.BODY: [ConnectionEvent.REQUEST, ConnectionEvent.WAITS_FOR_BODY],
    Phase.IDLE: [ConnectionEvent.REQUEST, ConnectionEvent.RESPONDED],
    Phase.LEAVING: [ConnectionEvent.LAST_RESPONSE],
}


def in_phase(phase: Phase, now: float = 0.0) -> Deadlines:
    deadlines = Deadlines(LIMITS, now)
    for happening in WAYS[phase]:
        assert deadlines.receive(happening, now) is Effect.NOTHING
    assert deadlines.phase is phase
    return deadlines


@pytest.mark.parametrize(("phase", "happening"), list(itertools.product(Phase, ConnectionEvent)))
def test_every_event_in_every_phase_follows_the_table(phase: Phase, happening: ConnectionEvent) -> None:
    """Events that the table lacks leave the phase unchanged."""
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
def test_the_duration_of_each_phase(phase: Phase, seconds: float) -> None:
    """ANSWERING is this server's time and has no limit."""
    assert in_phase(phase, 1000.0).deadline == 1000.0 + seconds


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ANSWERING])
def test_an_expired_phase_has_the_effect_of_the_table(phase: Phase) -> None:
    """Once, and not before the deadline."""
    deadlines = in_phase(phase)
    until = deadlines.deadline
    assert deadlines.receive(ConnectionEvent.DEADLINE, until - 0.001) is Effect.NOTHING
    assert deadlines.receive(ConnectionEvent.DEADLINE, until) is EXPIRY_EFFECTS[phase]
    assert deadlines.deadline == NO_DEADLINE
    assert deadlines.receive(ConnectionEvent.DEADLINE, until + 1) is Effect.NOTHING


def test_further_bytes_do_not_prolong_a_head() -> None:
    """The time counts from the first byte."""
    deadlines = in_phase(Phase.HEAD)
    for second in range(1, 10):
        assert deadlines.receive(ConnectionEvent.BYTES, second, 1) is Effect.NOTHING
    assert deadlines.deadline == 10


def test_the_time_for_a_head_begins_with_its_first_byte() -> None:
    """Not with the previous response, after which the longer idle timeout applies."""
    deadlines = in_phase(Phase.IDLE)
    deadlines.receive(ConnectionEvent.BYTES, 69.0, 1)
    assert deadlines.deadline == 79.0


@pytest.mark.parametrize("phase", [Phase.OPENING, Phase.HEAD, Phase.IDLE])
def test_a_head_that_is_too_large_is_refused_while_it_arrives(phase: Phase) -> None:
    """At the first byte too many, in one piece or in several."""
    deadlines = in_phase(phase)
    assert deadlines.receive(ConnectionEvent.BYTES, 0.0, 100) is Effect.NOTHING
    assert deadlines.receive(ConnectionEvent.BYTES, 0.0, 1) is Effect.REFUSE_HEAD
    assert in_phase(phase).receive(ConnectionEvent.BYTES, 0.0, 101) is Effect.REFUSE_HEAD


def test_a_response_resets_the_byte_count() -> None:
    """A persistent connection may send many heads of full size."""
    deadlines = in_phase(Phase.ANSWERING)
    for _ in range(3):
        deadlines.receive(ConnectionEvent.RESPONDED, 0.0)
        assert deadlines.receive(ConnectionEvent.BYTES, 0.0, 100) is Effect.NOTHING
        assert deadlines.receive(ConnectionEvent.REQUEST, 0.0, 0) is Effect.NOTHING


def test_a_body_has_to_make_progress() -> None:
    """Fewer bytes in a period count as stalled."""
    deadlines = in_phase(Phase.BODY)
    deadlines.receive(ConnectionEvent.BYTES, 1.0, 10)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 20.0) is Effect.NOTHING
    assert deadlines.deadline == 40.0
    deadlines.receive(ConnectionEvent.BYTES, 39.0, 9)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 40.0) is Effect.FAIL_BODY


def test_progress_does_not_prolong_a_body_for_ever() -> None:
    """The whole body has its own limit."""
    deadlines = in_phase(Phase.BODY)
    for now in (20.0, 40.0):
        deadlines.receive(ConnectionEvent.BYTES, now - 1, 1000)
        assert deadlines.receive(ConnectionEvent.DEADLINE, now) is Effect.NOTHING
    assert deadlines.deadline == 50.0
    deadlines.receive(ConnectionEvent.BYTES, 49.0, 1000)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 50.0) is Effect.FAIL_BODY


def test_the_bytes_of_the_head_are_no_progress_of_the_body() -> None:
    """A large head does not give a body more time."""
    deadlines = Deadlines(LIMITS, 0.0)
    deadlines.receive(ConnectionEvent.REQUEST, 0.0, 90)
    deadlines.receive(ConnectionEvent.WAITS_FOR_BODY, 0.0)
    assert deadlines.receive(ConnectionEvent.DEADLINE, 20.0) is Effect.FAIL_BODY


@pytest.mark.parametrize("phase", list(Phase))
def test_a_peer_that_does_not_read_is_disconnected_in_every_phase(phase: Phase) -> None:
    """Unless the phase ends before."""
    deadlines = in_phase(phase)
    before = deadlines.deadline
    deadlines.receive(ConnectionEvent.STALLED, 5.0)
    assert deadlines.deadline == min(before, 65.0)
    if before > 65.0:
        assert deadlines.receive(ConnectionEvent.DEADLINE, 65.0) is Effect.ABORT


def test_reading_resets_the_stall_timeout() -> None:
    """Only time without any reading counts."""
    deadlines = in_phase(Phase.ANSWERING)
    deadlines.receive(ConnectionEvent.STALLED, 0.0)
    deadlines.receive(ConnectionEvent.FLOWING, 59.0)
    assert deadlines.deadline == NO_DEADLINE
    assert deadlines.receive(ConnectionEvent.DEADLINE, 60.0) is Effect.NOTHING
