"""One figure of one side in one round, with the numbers that it was computed from."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Measurement:
    """`value` is in the row's unit: operations per second, or milliseconds per operation."""

    value: float
    operations: int
    seconds: float


def rate(operations: int, seconds: float) -> Measurement:
    """Return operations per second: for operations that can be kept busy."""
    if operations <= 0 or seconds <= 0:
        raise ValueError(f"nothing was measured: {operations} operations in {seconds} s")
    return Measurement(operations / seconds, operations, seconds)


def latency(durations: Sequence[float]) -> Measurement:
    """The median of how long one operation took, in milliseconds: for whatever is waited for.

    The median, because one pause of the machine must not decide a round.
    """
    if not durations or min(durations) <= 0:
        raise ValueError(f"nothing was measured: {len(durations)} durations")
    return Measurement(median(durations) * 1000, len(durations), sum(durations))


def median_value(measurements: Sequence[Measurement]) -> float:
    """Return the figure that stands for all rounds of one side."""
    return median(measurement.value for measurement in measurements)
