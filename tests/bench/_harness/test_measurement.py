import pytest

from bench._harness.measurement import Measurement, latency, median_value, rate


def test_a_rate_is_operations_by_seconds() -> None:
    """How many a second, with what it was computed from."""
    assert rate(50, 0.25) == Measurement(200.0, 50, 0.25)


def test_a_latency_is_the_median_in_milliseconds() -> None:
    """One pause of the machine does not decide a round."""
    assert latency([0.25, 9.0, 0.5]) == Measurement(500.0, 3, 9.75)


@pytest.mark.parametrize(("operations", "seconds"), [(0, 1.0), (5, 0.0), (-1, 1.0)])
def test_nothing_done_is_no_rate(operations: int, seconds: float) -> None:
    """A sample that did nothing fails; it must not become a figure of zero or of infinity."""
    with pytest.raises(ValueError, match="nothing was measured"):
        rate(operations, seconds)


@pytest.mark.parametrize("durations", [[], [0.1, 0.0]])
def test_no_durations_are_no_latency(durations: list[float]) -> None:
    """As for a rate."""
    with pytest.raises(ValueError, match="nothing was measured"):
        latency(durations)


def test_the_median_stands_for_all_rounds() -> None:
    """Of an even number it is the mean of the two in the middle."""
    assert median_value([rate(1, 1), rate(100, 1), rate(3, 1)]) == 3
    assert median_value([rate(1, 1), rate(100, 1), rate(3, 1), rate(5, 1)]) == 4
