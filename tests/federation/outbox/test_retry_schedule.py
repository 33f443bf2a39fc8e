"""When a failed server is retried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.outbox.messages import Outage, TransactionFailure
from federation.outbox.retry_schedule import (
    FIRST_DELAY_MS,
    MAX_BUSY_DELAY_MS,
    MAX_DELAY_MS,
    MIN_RETRY_INTERVAL_MS,
    OUTAGE_MS,
    RetrySchedule,
    delay_ms,
)
from federation.outbox.send_failure import Failure, FailureKind

NOW = 10**12


def failed(kind: FailureKind = FailureKind.AWAY, after: int | None = None) -> TransactionFailure:
    return TransactionFailure(Failure(kind, after), jitter=0.5)


def test_each_failure_increases_the_delay() -> None:
    """The start of the outage stays that of the first failure."""
    schedule = RetrySchedule()
    assert schedule.unavailable(failed(), NOW) == Outage(NOW, 1, NOW + 5_000)
    assert schedule.unavailable(failed(), NOW + 5_000) == Outage(NOW, 2, NOW + 15_000)
    assert not schedule.is_due(NOW + 14_999)
    assert schedule.is_due(NOW + 15_000)


def test_an_outage_continues_after_a_restart() -> None:
    """A restart does not cause an attempt."""
    schedule = RetrySchedule(Outage(NOW - OUTAGE_MS, 8, NOW + 7))
    assert schedule.retry_at == NOW + 7
    assert schedule.is_long_outage(NOW)
    assert schedule.unavailable(failed(), NOW + 7) == Outage(NOW - OUTAGE_MS, 9, NOW + 7 + 5_000 * 2**8)


def test_a_request_from_the_server_makes_the_retry_soon() -> None:
    """At least five seconds after the last attempt: the server may reach this one without being reachable."""
    schedule = RetrySchedule()
    schedule.attempted(NOW)
    for _ in range(6):
        schedule.unavailable(failed(), NOW)
    schedule.request_received()
    assert schedule.retry_at == NOW + MIN_RETRY_INTERVAL_MS
    assert schedule.failures == 0
    assert schedule.failing_since == NOW
    schedule.attempted(NOW + MIN_RETRY_INTERVAL_MS)
    assert schedule.unavailable(failed(), NOW + MIN_RETRY_INTERVAL_MS).retry_at == NOW + MIN_RETRY_INTERVAL_MS + 5_000


def test_retry_after_is_respected() -> None:
    """Even if requests arrive from the server meanwhile; up to an hour."""
    schedule = RetrySchedule()
    schedule.attempted(NOW)
    schedule.busy(failed(FailureKind.BUSY, 20_000), NOW)
    schedule.request_received()
    assert schedule.retry_at == NOW + 20_000
    schedule.unavailable(failed(after=10**12), NOW)
    assert schedule.retry_at == NOW + 3_600_000


def test_a_busy_server_is_not_an_outage() -> None:
    """The delay is at most a minute, unless the server names a longer one."""
    schedule = RetrySchedule()
    schedule.unavailable(failed(), NOW)
    for _ in range(9):
        schedule.busy(failed(FailureKind.BUSY), NOW)
    assert schedule.retry_at == NOW + MAX_BUSY_DELAY_MS
    assert schedule.failing_since is None
    assert not schedule.is_long_outage(NOW + 2 * OUTAGE_MS)


def test_a_success_resets_the_schedule() -> None:
    """The next failure counts as the first."""
    schedule = RetrySchedule()
    schedule.unavailable(failed(), NOW)
    schedule.unavailable(failed(), NOW)
    schedule.succeeded()
    assert schedule.unavailable(failed(), NOW + 9) == Outage(NOW + 9, 1, NOW + 5_009)


def test_delays_double_from_five_seconds_up_to_an_hour() -> None:
    """A restarting peer is reached within seconds, an unreachable one is tried once an hour."""
    delays = [delay_ms(failures, 0.5) for failures in range(1, 14)]
    assert delays[:4] == [5_000, 10_000, 20_000, 40_000]
    assert delays[-3:] == [MAX_DELAY_MS] * 3


@given(failures=st.integers(1, 10**6), jitter=st.floats(0, 1))
def test_jitter_changes_the_delay_by_a_quarter(failures: int, jitter: float) -> None:
    """Servers that failed together are not retried together; an hour stays the limit."""
    delay, middle = delay_ms(failures, jitter), delay_ms(failures, 0.5)
    assert 0.75 * middle - 1 <= delay <= min(1.25 * middle, MAX_DELAY_MS)
    assert delay >= 0.75 * FIRST_DELAY_MS


@pytest.mark.parametrize(("failures", "jitter"), [(0, 0.5), (1, -0.1), (1, 1.1)])
def test_invalid_arguments_are_a_bug_of_the_caller(failures: int, jitter: float) -> None:
    """They never come from a peer."""
    with pytest.raises(AssertionError):
        delay_ms(failures, jitter)
