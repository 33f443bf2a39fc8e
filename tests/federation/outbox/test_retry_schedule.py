"""When a server that failed is tried again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.outbox.messages import Failed, Outage
from federation.outbox.retry_schedule import (
    FIRST_MS,
    LONGEST_BUSY_MS,
    LONGEST_MS,
    OUTAGE_MS,
    SOONEST_RETRY_MS,
    RetrySchedule,
    delay_ms,
)
from federation.outbox.send_failure import Failure, FailureKind

NOW = 10**12


def failed(kind: FailureKind = FailureKind.AWAY, after: int | None = None) -> Failed:
    return Failed(Failure(kind, after), jitter=0.5)


def test_each_failure_waits_longer() -> None:
    """And since when it fails stays the first."""
    schedule = RetrySchedule()
    assert schedule.away(failed(), NOW) == Outage(NOW, 1, NOW + 5_000)
    assert schedule.away(failed(), NOW + 5_000) == Outage(NOW, 2, NOW + 15_000)
    assert not schedule.is_due(NOW + 14_999)
    assert schedule.is_due(NOW + 15_000)


def test_an_outage_goes_on_after_a_restart() -> None:
    """A restart is no reason to ask a dead server at once."""
    schedule = RetrySchedule(Outage(NOW - OUTAGE_MS, 8, NOW + 7))
    assert schedule.retry_at == NOW + 7
    assert schedule.is_long(NOW)
    assert schedule.away(failed(), NOW + 7) == Outage(NOW - OUTAGE_MS, 9, NOW + 7 + 5_000 * 2**8)


def test_who_was_heard_from_is_tried_soon() -> None:
    """But not sooner than five seconds after the last attempt: it may reach us and we not it."""
    schedule = RetrySchedule()
    schedule.attempted(NOW)
    for _ in range(6):
        schedule.away(failed(), NOW)
    schedule.heard()
    assert schedule.retry_at == NOW + SOONEST_RETRY_MS
    assert schedule.failures == 0
    assert schedule.failing_since == NOW
    schedule.attempted(NOW + SOONEST_RETRY_MS)
    assert schedule.away(failed(), NOW + SOONEST_RETRY_MS).retry_at == NOW + SOONEST_RETRY_MS + 5_000


def test_a_servers_own_word_counts() -> None:
    """However it is heard from meanwhile; up to an hour."""
    schedule = RetrySchedule()
    schedule.attempted(NOW)
    schedule.busy(failed(FailureKind.BUSY, 20_000), NOW)
    schedule.heard()
    assert schedule.retry_at == NOW + 20_000
    schedule.away(failed(after=10**12), NOW)
    assert schedule.retry_at == NOW + 3_600_000


def test_a_busy_server_is_no_outage() -> None:
    """It answers. It is given a minute at the most, unless it says otherwise."""
    schedule = RetrySchedule()
    schedule.away(failed(), NOW)
    for _ in range(9):
        schedule.busy(failed(FailureKind.BUSY), NOW)
    assert schedule.retry_at == NOW + LONGEST_BUSY_MS
    assert schedule.failing_since is None
    assert not schedule.is_long(NOW + 2 * OUTAGE_MS)


def test_a_success_ends_it() -> None:
    """The next failure is the first."""
    schedule = RetrySchedule()
    schedule.away(failed(), NOW)
    schedule.away(failed(), NOW)
    schedule.well()
    assert schedule.away(failed(), NOW + 9) == Outage(NOW + 9, 1, NOW + 5_009)


def test_five_seconds_doubled_up_to_an_hour() -> None:
    """A restart of a peer costs seconds; a dead one is asked once an hour."""
    delays = [delay_ms(failures, 0.5) for failures in range(1, 14)]
    assert delays[:4] == [5_000, 10_000, 20_000, 40_000]
    assert delays[-3:] == [LONGEST_MS] * 3


@given(failures=st.integers(1, 10**6), jitter=st.floats(0, 1))
def test_chance_moves_it_by_a_quarter(failures: int, jitter: float) -> None:
    """Those that were cut off together don't come back together; and an hour stays the most."""
    delay, middle = delay_ms(failures, jitter), delay_ms(failures, 0.5)
    assert 0.75 * middle - 1 <= delay <= min(1.25 * middle, LONGEST_MS)
    assert delay >= 0.75 * FIRST_MS


@pytest.mark.parametrize(("failures", "jitter"), [(0, 0.5), (1, -0.1), (1, 1.1)])
def test_what_makes_no_sense_is_a_bug(failures: int, jitter: float) -> None:
    """Nothing of this comes from a peer."""
    with pytest.raises(AssertionError):
        delay_ms(failures, jitter)
