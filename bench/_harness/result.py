"""The results of a row, and of a whole benchmark."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from bench._harness.measurement import Measurement
from bench._harness.row import Benchmark, Row


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of one row, round by round; `other` is empty for a ceiling."""

    row: Row[Any]
    ours: tuple[Measurement, ...]
    other: tuple[Measurement, ...]

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' own ratios; not quite what dividing the two medians gives.

        The two samples of a round lie next to each other, so a machine that is slow for a while slows both
        and leaves their ratio alone. The medians of the sides may come from rounds that were not alike.
        """
        return median(self.ratios) if self.ratios else None

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """Return the quartiles of the rounds' ratios, which show how reliable the ratio is on this
        machine."""
        if not self.ratios:
            return None
        # `quantiles` needs two values, so a single round is used twice.
        low, _, high = quantiles(self.ratios if len(self.ratios) > 1 else self.ratios * 2, method="inclusive")
        return low, high

    @property
    def ratios(self) -> list[float]:
        """Return the ratio of each round (above 1 is better for Palaver); nothing for a ceiling."""
        if not self.other:
            return []
        pairs = zip(self.ours, self.other, strict=True)
        return [self.row.unit.ratio(ours.value, other.value) for ours, other in pairs]


@dataclass(frozen=True, slots=True)
class Headline:
    """The one ratio of a benchmark; `worst_of` is the number of rows of which it is the worst, None for a
    chosen row."""

    row: Row[Any]
    ratio: float
    worst_of: int | None


def headline(benchmark: Benchmark, results: Sequence[Result]) -> Headline | None:
    """Return the ratio of the headline row, or the worst one that counts; None if nothing was compared."""
    ratios = [(result.ratio, result.row) for result in results if result.row.counts]
    compared = [(ratio, row) for ratio, row in ratios if ratio is not None]
    if benchmark.headline is not None:
        chosen = (Headline(row, ratio, None) for ratio, row in compared if row.name == benchmark.headline)
        return next(chosen, None)
    if not compared:
        return None
    ratio, row = min(compared, key=lambda pair: pair[0])
    return Headline(row, ratio, len(compared))
