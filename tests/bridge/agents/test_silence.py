"""After how much silence an agent is gone."""

import pytest

from bridge.agents.liveness import ListeningPeriod, cutoff, extend_listening, next_check

TIMEOUT = 120_000
NOW = 10**12


def test_who_listens_on_loses_no_time() -> None:
    """As long as less than one heartbeat could have been missed, also over a quick restart."""
    began = extend_listening(None, NOW, TIMEOUT)
    assert began == ListeningPeriod(NOW, NOW)
    assert extend_listening(began, NOW + 30_000, TIMEOUT) == ListeningPeriod(NOW, NOW + 30_000)


@pytest.mark.parametrize("now_ms", [NOW + 30_001, NOW + 10**9, NOW - TIMEOUT - 1])
def test_a_break_begins_anew(now_ms: int) -> None:
    """A node that was away itself, or whose clock was put back, gives everybody the whole time again."""
    assert extend_listening(ListeningPeriod(NOW - 10**6, NOW), now_ms, TIMEOUT) == ListeningPeriod(
        now_ms, now_ms
    )


def test_a_clock_that_steps_back_a_little_takes_nothing_back() -> None:
    """The times of two processes on one database differ a little."""
    assert extend_listening(ListeningPeriod(5, NOW), NOW - 10, TIMEOUT) == ListeningPeriod(5, NOW)


def test_nobody_is_gone_before_it_was_listened_for_that_long() -> None:
    """Silence that nobody listened to is no reproach."""
    heard = ListeningPeriod(NOW, NOW)
    assert cutoff(heard, NOW + TIMEOUT - 1, TIMEOUT) is None
    assert cutoff(heard, NOW + TIMEOUT, TIMEOUT) == NOW


def test_the_next_look_is_when_the_first_one_may_be_gone() -> None:
    """Not a moment later, and never so late that listening would be interrupted."""
    heard = ListeningPeriod(NOW - 10**6, NOW)
    assert next_check(heard, NOW - TIMEOUT + 5, NOW, TIMEOUT) == NOW + 6
    assert next_check(heard, NOW - 10 * TIMEOUT, NOW, TIMEOUT) == NOW
    assert next_check(heard, NOW, NOW, TIMEOUT) == NOW + 15_000
    assert next_check(heard, None, NOW, TIMEOUT) == NOW + 15_000
    assert next_check(ListeningPeriod(NOW - TIMEOUT + 9, NOW), 0, NOW, TIMEOUT) == NOW + 10
