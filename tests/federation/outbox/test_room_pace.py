"""How many events of one room may be on their way to one server."""

from hypothesis import given
from hypothesis import strategies as st

from federation.outbox.pacing import (
    BELIEVED_PER_SECOND,
    FIRST_PROBE_MS,
    LONGEST_PROBE_MS,
    STUCK_MS,
    TRUSTED_MS,
    WINDOW,
    RoomPace,
)

NOW = 10**12


def full() -> RoomPace:
    pace = RoomPace()
    pace.sent(range(WINDOW), NOW)
    pace.staged(range(WINDOW), NOW)
    return pace


def test_a_window_and_no_more() -> None:
    """A Synapse throws away what waits in a room once a hundred wait there."""
    pace = RoomPace()
    assert pace.allowance(NOW) == WINDOW < 100
    pace.sent(range(50), NOW)
    assert pace.allowance(NOW) == WINDOW - 50
    pace.sent(range(50, WINDOW), NOW)
    assert pace.allowance(NOW) == 0


def test_what_is_sent_again_counts_once() -> None:
    """A transaction that got no answer may lie there already."""
    pace = RoomPace()
    pace.sent(range(50), NOW)
    pace.sent(range(50), NOW)
    assert pace.allowance(NOW) == WINDOW - 50


def test_time_frees_ten_a_second() -> None:
    """What every living server does. Fractions are not lost, however often somebody looks."""
    pace = full()
    assert pace.allowance(NOW + 99) == 0
    assert pace.allowance(NOW + 100) == 1
    assert [pace.allowance(NOW + at) for at in range(150, 1050, 50)][-1] == 10
    assert pace.allowance(NOW + 8_000) == WINDOW
    assert pace.is_idle(NOW + 8_000)


@given(count=st.integers(1, WINDOW), passed=st.integers(0, 9_000))
def test_when_it_is_allowed_it_is(count: int, passed: int) -> None:
    """Neither earlier nor later than said, or a timer would be set for nothing."""
    pace = full()
    pace.allowance(NOW + passed)
    at = pace.allowed_at(count)
    assert pace.allowance(max(at, NOW + passed)) >= count
    earlier = full()
    assert at == 0 or at <= NOW + passed or earlier.allowance(at - 1) < count


def test_a_sign_frees_all_up_to_it() -> None:
    """A room is worked off in order; a sign about something that is not on its way says nothing."""
    pace = full()
    pace.has(59, NOW)
    assert pace.allowance(NOW) == 60
    pace.has(1000, NOW)
    pace.has(3, NOW)
    assert pace.allowance(NOW) == 60


def test_the_peer_is_asked_for_one_in_the_middle() -> None:
    """So that more is on its way before it has worked off all."""
    pace = full()
    assert pace.probe(NOW + FIRST_PROBE_MS - 1) is None
    position = pace.probe(NOW + FIRST_PROBE_MS)
    assert position == WINDOW // 2
    assert pace.probe(NOW + FIRST_PROBE_MS) is None
    assert pace.probe_at is None
    pace.probed(position, NOW + FIRST_PROBE_MS, has_it=True)
    assert pace.allowance(NOW + FIRST_PROBE_MS) == WINDOW // 2 + 1
    assert pace.probe(NOW + 10_000) is None


def test_what_is_unknown_is_not_asked_for() -> None:
    """Nobody knows what it was. It fades with time, or with a sign about something later."""
    pace = RoomPace(70, NOW)
    assert pace.allowance(NOW) == WINDOW - 70
    assert pace.probe(NOW + 10) is None
    pace.staged([1, 2, 3], NOW)
    position = pace.probe(NOW + FIRST_PROBE_MS)
    assert position == 2
    pace.probed(position, NOW + FIRST_PROBE_MS, has_it=True)
    assert pace.allowance(NOW + FIRST_PROBE_MS) == WINDOW - 1


def test_what_is_in_flight_is_not_asked_for() -> None:
    """The peer need not have got it yet."""
    pace = RoomPace()
    pace.staged(range(32), NOW)
    pace.sent(range(32, WINDOW), NOW)
    assert pace.probe(NOW + FIRST_PROBE_MS) == 16
    in_flight = RoomPace()
    in_flight.sent(range(WINDOW), NOW)
    assert in_flight.probe_at is None
    assert in_flight.probe(NOW + FIRST_PROBE_MS) is None


def test_a_late_answer_counts_from_when_it_came() -> None:
    """While it was not there, nothing of it need have been worked off."""
    pace = RoomPace()
    pace.sent(range(50), NOW)
    assert pace.allowance(NOW + 60_000) == WINDOW
    pace.staged(range(50), NOW + 60_000)
    assert pace.allowance(NOW + 60_000) == WINDOW - 50


def test_nothing_is_asked_while_there_is_room() -> None:
    """An ordinary conversation costs nothing."""
    pace = RoomPace()
    pace.staged(range(WINDOW // 2 - 1), NOW)
    assert pace.probe(NOW + FIRST_PROBE_MS) is None
    assert pace.probe_at is None


def test_it_is_asked_less_often_the_longer_it_takes() -> None:
    """A fifth of a second, doubled up to two; anew once it had something."""
    pace, now, waits = full(), NOW + FIRST_PROBE_MS, []
    for _ in range(6):
        position = pace.probe(now)
        assert position is not None
        pace.probed(position, now, has_it=False)
        pace.staged(range(position + 100, position + 100 + 2 * WINDOW), now)
        assert pace.probe_at is not None
        waits.append(pace.probe_at - now)
        now = pace.probe_at
    assert waits == [FIRST_PROBE_MS, 400, 800, 1600, LONGEST_PROBE_MS, LONGEST_PROBE_MS]
    position = pace.probe(now)
    assert position is not None
    pace.probed(position, now, has_it=True)
    position = pace.probe(now)
    assert position is not None
    pace.probed(position, now, has_it=False)
    assert pace.probe_at == now + FIRST_PROBE_MS


def test_it_is_asked_nearer_to_the_beginning_the_less_far_it_has_got() -> None:
    """However slow it is, it soon has something to say yes to; then it is asked for more again."""
    pace, now, asked = full(), NOW + FIRST_PROBE_MS, []
    for has_it in (False, False, False, True, False):
        position = pace.probe(now)
        assert position is not None
        asked.append(position)
        pace.probed(position, now, has_it=has_it)
        now = pace.probe_at or now
    assert asked == [WINDOW // 2, WINDOW // 4, WINDOW // 8, WINDOW // 16, 6 + (WINDOW - 6) // 8]


def test_what_the_peer_says_outranks_time() -> None:
    """A Synapse that is slower than anybody would believe must not have a hundred waiting."""
    pace, now = full(), NOW + FIRST_PROBE_MS
    while now < NOW + STUCK_MS:
        position = pace.probe(now)
        assert position is not None
        pace.probed(position, now, has_it=False)
        assert pace.allowance(now) == 0
        now = pace.probe_at or now
    # One that takes its time over the answer, too.
    slow = full()
    slow.probe(NOW + FIRST_PROBE_MS)
    assert slow.allowance(NOW + FIRST_PROBE_MS + TRUSTED_MS) == 0


def test_a_peer_that_never_says_yes_is_not_left_alone() -> None:
    """It may have rejected what it is asked for; so after a while time counts again, until it says yes."""
    pace, now = full(), NOW + FIRST_PROBE_MS
    while now < NOW + STUCK_MS + TRUSTED_MS + 1_000:
        position = pace.probe(now)
        assert position is not None
        pace.probed(position, now, has_it=False)
        now = pace.probe_at or now
    freed = pace.allowance(now)
    assert freed >= BELIEVED_PER_SECOND
    position = pace.probe(now)
    assert position is not None
    pace.probed(position, now, has_it=True)
    assert pace.allowance(now) == pace.allowance(now + TRUSTED_MS) > freed


def test_an_answer_to_another_question_is_none() -> None:
    """One that was asked before everything was forgotten."""
    pace = full()
    pace.probe(NOW + FIRST_PROBE_MS)
    pace.probed(7, NOW, has_it=True)
    assert pace.allowance(NOW) == 0
    never_asked = RoomPace()
    never_asked.probed(7, NOW, has_it=True)
    assert never_asked.is_idle(NOW)


def test_a_clock_that_stands_still_or_jumps_back_frees_nothing() -> None:
    """It is only slower then."""
    pace = full()
    assert pace.allowance(NOW - 10_000) == 0
    assert pace.allowance(NOW) == 0
