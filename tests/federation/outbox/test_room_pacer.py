"""The limit of events of one room in flight to one server."""

from hypothesis import given
from hypothesis import strategies as st

from federation.outbox.pacing import (
    ASSUMED_PER_SECOND,
    FIRST_PROBE_DELAY_MS,
    MAX_PROBE_INTERVAL_MS,
    PROBE_PRECEDENCE_MS,
    STUCK_MS,
    WINDOW,
    RoomPacer,
)

NOW = 10**12


def full() -> RoomPacer:
    pacer = RoomPacer()
    pacer.sent(range(WINDOW), NOW)
    pacer.staged(range(WINDOW), NOW)
    return pacer


def test_at_most_a_window_is_in_flight() -> None:
    """Synapse discards staged events of a room once there are a hundred."""
    pacer = RoomPacer()
    assert pacer.allowance(NOW) == WINDOW < 100
    pacer.sent(range(50), NOW)
    assert pacer.allowance(NOW) == WINDOW - 50
    pacer.sent(range(50, WINDOW), NOW)
    assert pacer.allowance(NOW) == 0


def test_repeated_events_count_once() -> None:
    """The peer may already have staged those of a transaction without a response."""
    pacer = RoomPacer()
    pacer.sent(range(50), NOW)
    pacer.sent(range(50), NOW)
    assert pacer.allowance(NOW) == WINDOW - 50


def test_ten_events_a_second_are_assumed_processed() -> None:
    """Fractions are not lost, however often the allowance is read."""
    pacer = full()
    assert pacer.allowance(NOW + 99) == 0
    assert pacer.allowance(NOW + 100) == 1
    assert [pacer.allowance(NOW + at) for at in range(150, 1050, 50)][-1] == 10
    assert pacer.allowance(NOW + 8_000) == WINDOW
    assert pacer.is_idle(NOW + 8_000)


@given(count=st.integers(1, WINDOW), passed=st.integers(0, 9_000))
def test_allowed_at_is_exact(count: int, passed: int) -> None:
    """Otherwise a timer would be set for nothing."""
    pacer = full()
    pacer.allowance(NOW + passed)
    at = pacer.allowed_at(count)
    assert pacer.allowance(max(at, NOW + passed)) >= count
    earlier = full()
    assert at == 0 or at <= NOW + passed or earlier.allowance(at - 1) < count


def test_a_confirmed_event_confirms_all_before_it() -> None:
    """A room is processed in order; confirmation of an event that is not in flight has no effect."""
    pacer = full()
    pacer.confirmed(59, NOW)
    assert pacer.allowance(NOW) == 60
    pacer.confirmed(1000, NOW)
    pacer.confirmed(3, NOW)
    assert pacer.allowance(NOW) == 60


def test_the_event_in_the_middle_is_probed() -> None:
    """So that more can be sent before the peer has processed all."""
    pacer = full()
    assert pacer.probe(NOW + FIRST_PROBE_DELAY_MS - 1) is None
    position = pacer.probe(NOW + FIRST_PROBE_DELAY_MS)
    assert position == WINDOW // 2
    assert pacer.probe(NOW + FIRST_PROBE_DELAY_MS) is None
    assert pacer.probe_at is None
    pacer.probed(position, NOW + FIRST_PROBE_DELAY_MS, has_it=True)
    assert pacer.allowance(NOW + FIRST_PROBE_DELAY_MS) == WINDOW // 2 + 1
    assert pacer.probe(NOW + 10_000) is None


def test_unknown_events_are_not_probed() -> None:
    """Events from before the start have no known ids. They count as processed after a while, or when a
    later event is confirmed."""
    pacer = RoomPacer(70, NOW)
    assert pacer.allowance(NOW) == WINDOW - 70
    assert pacer.probe(NOW + 10) is None
    pacer.staged([1, 2, 3], NOW)
    position = pacer.probe(NOW + FIRST_PROBE_DELAY_MS)
    assert position == 2
    pacer.probed(position, NOW + FIRST_PROBE_DELAY_MS, has_it=True)
    assert pacer.allowance(NOW + FIRST_PROBE_DELAY_MS) == WINDOW - 1


def test_events_without_a_response_are_not_probed() -> None:
    """The peer may not have received them yet."""
    pacer = RoomPacer()
    pacer.staged(range(32), NOW)
    pacer.sent(range(32, WINDOW), NOW)
    assert pacer.probe(NOW + FIRST_PROBE_DELAY_MS) == 16
    in_flight = RoomPacer()
    in_flight.sent(range(WINDOW), NOW)
    assert in_flight.probe_at is None
    assert in_flight.probe(NOW + FIRST_PROBE_DELAY_MS) is None


def test_a_late_response_counts_from_its_arrival() -> None:
    """Before that the events need not have been processed."""
    pacer = RoomPacer()
    pacer.sent(range(50), NOW)
    assert pacer.allowance(NOW + 60_000) == WINDOW
    pacer.staged(range(50), NOW + 60_000)
    assert pacer.allowance(NOW + 60_000) == WINDOW - 50


def test_no_probe_while_the_window_is_less_than_half_full() -> None:
    """An ordinary conversation causes no probes."""
    pacer = RoomPacer()
    pacer.staged(range(WINDOW // 2 - 1), NOW)
    assert pacer.probe(NOW + FIRST_PROBE_DELAY_MS) is None
    assert pacer.probe_at is None


def test_the_interval_of_probes_doubles() -> None:
    """From a fifth of a second up to two; a successful probe resets it."""
    pacer, now, waits = full(), NOW + FIRST_PROBE_DELAY_MS, []
    for _ in range(6):
        position = pacer.probe(now)
        assert position is not None
        pacer.probed(position, now, has_it=False)
        pacer.staged(range(position + 100, position + 100 + 2 * WINDOW), now)
        assert pacer.probe_at is not None
        waits.append(pacer.probe_at - now)
        now = pacer.probe_at
    assert waits == [FIRST_PROBE_DELAY_MS, 400, 800, 1600, MAX_PROBE_INTERVAL_MS, MAX_PROBE_INTERVAL_MS]
    position = pacer.probe(now)
    assert position is not None
    pacer.probed(position, now, has_it=True)
    position = pacer.probe(now)
    assert position is not None
    pacer.probed(position, now, has_it=False)
    assert pacer.probe_at == now + FIRST_PROBE_DELAY_MS


def test_after_a_failed_probe_an_earlier_event_is_probed() -> None:
    """Even a slow peer soon has a probed event; then later ones are probed again."""
    pacer, now, asked = full(), NOW + FIRST_PROBE_DELAY_MS, []
    for has_it in (False, False, False, True, False):
        position = pacer.probe(now)
        assert position is not None
        asked.append(position)
        pacer.probed(position, now, has_it=has_it)
        now = pacer.probe_at or now
    assert asked == [WINDOW // 2, WINDOW // 4, WINDOW // 8, WINDOW // 16, 6 + (WINDOW - 6) // 8]


def test_probe_results_take_precedence_over_assumed_progress() -> None:
    """A Synapse that is slower than assumed must not have a hundred events staged."""
    pacer, now = full(), NOW + FIRST_PROBE_DELAY_MS
    while now < NOW + STUCK_MS:
        position = pacer.probe(now)
        assert position is not None
        pacer.probed(position, now, has_it=False)
        assert pacer.allowance(now) == 0
        now = pacer.probe_at or now
    # The same with a slow response to the probe.
    slow = full()
    slow.probe(NOW + FIRST_PROBE_DELAY_MS)
    assert slow.allowance(NOW + FIRST_PROBE_DELAY_MS + PROBE_PRECEDENCE_MS) == 0


def test_progress_is_assumed_again_when_all_probes_fail() -> None:
    """The peer may have rejected the probed event; assumed progress counts until a probe succeeds."""
    pacer, now = full(), NOW + FIRST_PROBE_DELAY_MS
    while now < NOW + STUCK_MS + PROBE_PRECEDENCE_MS + 1_000:
        position = pacer.probe(now)
        assert position is not None
        pacer.probed(position, now, has_it=False)
        now = pacer.probe_at or now
    freed = pacer.allowance(now)
    assert freed >= ASSUMED_PER_SECOND
    position = pacer.probe(now)
    assert position is not None
    pacer.probed(position, now, has_it=True)
    assert pacer.allowance(now) == pacer.allowance(now + PROBE_PRECEDENCE_MS) > freed


def test_the_result_of_an_unknown_probe_is_ignored() -> None:
    """It may have begun before everything was cleared."""
    pacer = full()
    pacer.probe(NOW + FIRST_PROBE_DELAY_MS)
    pacer.probed(7, NOW, has_it=True)
    assert pacer.allowance(NOW) == 0
    never_asked = RoomPacer()
    never_asked.probed(7, NOW, has_it=True)
    assert never_asked.is_idle(NOW)


def test_a_clock_that_stops_or_jumps_back_only_delays() -> None:
    """It never allows more events."""
    pacer = full()
    assert pacer.allowance(NOW - 10_000) == 0
    assert pacer.allowance(NOW) == 0
