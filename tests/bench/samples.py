"""Rows whose figures are known beforehand, so that the arithmetic on them can be."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from bench._harness.measurement import Measurement, latency, rate
from bench._harness.result import Result
from bench._harness.row import Benchmark, Row, Section, Side, Unit


def per_second(*values: float) -> tuple[Measurement, ...]:
    return tuple(rate(round(value * 1000), 1000.0) for value in values)


def milliseconds(*values: float) -> tuple[Measurement, ...]:
    return tuple(latency([value / 1000]) for value in values)


def replay(measurements: Iterable[Measurement]) -> Callable[[Any, float], Measurement]:
    """A sample that yields these one after the other, whatever it is given."""
    remaining = iter(measurements)
    return lambda subject, seconds: next(remaining)


def row(name: str = "row", *, compared: bool = True, counts: bool = True, unit: Unit = Unit.PER_SECOND) -> Row[Any]:
    never = replay(())
    return Row(
        name=name,
        what=f"what {name} does",
        unit=unit,
        ours=Side("A", never),
        other=Side("B", never) if compared else None,
        counts=counts,
    )


def result(name: str, ours: float, other: float | None, *, counts: bool = True) -> Result:
    """One round of a row, per second."""
    return Result(
        row(name, compared=other is not None, counts=counts),
        per_second(ours),
        () if other is None else per_second(other),
    )


def benchmark(*rows: Row[Any], headline: str | None = None) -> Benchmark:
    section = Section(setup=nullcontext, rows=rows)
    return Benchmark(name="example", sections=[section], packages=["orjson"], headline=headline)
