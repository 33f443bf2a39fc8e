"""The time after which an agent without heartbeats is lost."""

import pytest

from bridge.agents.liveness import ListeningPeriod, cutoff, extend_listening, next_check

TIMEOUT = 120_000
NOW = 10**12


def test_listening_continues_over_a_short_gap() -> None:
    """If less than one heartbeat could have been missed, also over a quick restart."""
    began = extend_listening(None, NOW, TIMEOUT)
    assert began == ListeningPeriod(NOW, NOW)
    assert extend_listening(began, NOW + 30_000, TIMEOUT) == ListeningPeriod(NOW, NOW + 30_000)


@pytest.mark.parametrize("now_ms", [NOW + 30_001, NOW + 10**9, NOW - TIMEOUT - 1])
def test_a_gap_starts_a_new_period(now_ms: int) -> None:
    """After an outage of the node, or when its clock was set back, every agent has the full timeout."""
    assert extend_listening(ListeningPeriod(NOW - 10**6, NOW), now_ms, TIMEOUT) == ListeningPeriod(now_ms, now_ms)


def test_a_small_clock_step_back_changes_nothing() -> None:
    """The clocks of two processes on one database differ slightly."""
    assert extend_listening(ListeningPeriod(5, NOW), NOW - 10, TIMEOUT) == ListeningPeriod(5, NOW)


def test_no_agent_is_lost_before_the_period_is_long_enough() -> None:
    """Missed heartbeats do not count before."""
    heard = ListeningPeriod(NOW, NOW)
    assert cutoff(heard, NOW + TIMEOUT - 1, TIMEOUT) is None
    assert cutoff(heard, NOW + TIMEOUT, TIMEOUT) == NOW


def test_the_next_check_is_when_the_first_agent_may_be_lost() -> None:
    """And early enough to extend the period."""
    heard = ListeningPeriod(NOW - 10**6, NOW)
    assert next_check(heard, NOW - TIMEOUT + 5, NOW, TIMEOUT) == NOW + 6
    assert next_check(heard, NOW - 10 * TIMEOUT, NOW, TIMEOUT) == NOW
    assert next_check(heard, NOW, NOW, TIMEOUT) == NOW + 15_000
    assert next_check(heard, None, NOW, TIMEOUT) == NOW + 15_000
    assert next_check(ListeningPeriod(NOW - TIMEOUT + 9, NOW), 0, NOW, TIMEOUT) == NOW + 10
