"""The JSON that `--json FILE` writes: every measurement of every round, and its circumstances."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bench._harness.machine import description, versions
from bench._harness.measurement import Measurement, median_value
from bench._harness.plan import Plan
from bench._harness.result import Headline, Result
from bench._harness.row import Benchmark, Side


def raw_figures(
    benchmark: Benchmark,
    plan: Plan,
    results: Sequence[Result],
    remarks: Sequence[str],
    found: Headline | None,
    loads: tuple[float, float],
) -> dict[str, Any]:
    """`loads` is the machine's load before and after; `found` is the result in the last line."""
    return {
        "benchmark": benchmark.name,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "machine": description() | {"load_before": loads[0], "load_after": loads[1]},
        "packages": versions(benchmark.packages),
        "remarks": list(remarks),
        "rows": [_row(result) for result in results],
        "ratio": None if found is None else {"row": found.row.name, "value": found.ratio},
    }


def _row(result: Result) -> dict[str, Any]:
    row = result.row
    return {
        "name": row.name,
        "what": row.what,
        "unit": row.unit.value,
        "counts": row.counts and row.other is not None,
        "ours": _side(row.ours, result.ours),
        "other": None if row.other is None else _side(row.other, result.other),
        "ratio": result.ratio,
    }


def _side(side: Side[Any], measurements: Sequence[Measurement]) -> dict[str, Any]:
    return {
        "name": side.name,
        "median": median_value(measurements),
        "rounds": [asdict(measurement) for measurement in measurements],
    }
