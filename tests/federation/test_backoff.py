"""How long a server that does not answer is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.backoff import FIRST_MS, LONGEST_MS, delay_ms


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
