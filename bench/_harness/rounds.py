"""Measures rows: both sides in turns, A B A B …, so that noise of the machine affects both alike."""

import gc
import inspect
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from bench._harness.measurement import Measurement
from bench._harness.plan import Plan
from bench._harness.progress import Progress
from bench._harness.result import Result
from bench._harness.row import Benchmark, Row, Sample, Section

S = TypeVar("S")


async def measure(
    benchmark: Benchmark, names: Collection[str], plan: Plan, progress: Progress
) -> tuple[list[Result], list[str]]:
    """Return the results of the named rows in the table's order, and the remarks of their sections."""
    results: list[Result] = []
    remarks: list[str] = []
    for section in benchmark.sections:
        rows = [row for row in section.rows if row.name in names]
        if not rows:
            continue
        async with _opened(section) as subject:
            for row in rows:
                results.append(await _measure_row(row, subject, plan, progress))
                progress.measured(results[-1])
            remarks.extend(section.remarks(subject))
    return results, remarks


async def _measure_row(row: Row[S], subject: S, plan: Plan, progress: Progress) -> Result:
    for side in row.sides:
        # One-time costs (a prepared statement, a filled cache) fall into a sample that is dropped.
        await _sample(side.sample, subject, plan.seconds / 4)
    taken: list[list[Measurement]] = [[] for _ in row.sides]
    for number in range(plan.rounds):
        for side, measurements in zip(row.sides, taken, strict=True):
            progress.measuring(row, side, number)
            measurements.append(await _sample(side.sample, subject, plan.seconds))
    ours, *other = (tuple(measurements) for measurements in taken)
    return Result(row, ours, other[0] if other else ())


async def _sample(sample: Sample[S], subject: S, seconds: float) -> Measurement:
    # What one side left behind must not be collected while the clock of the other one runs.
    gc.collect()
    taken = sample(subject, seconds)
    return await taken if inspect.isawaitable(taken) else taken


@asynccontextmanager
async def _opened(section: Section[Any]) -> AsyncIterator[Any]:
    manager = section.setup()
    if isinstance(manager, AbstractAsyncContextManager):
        async with manager as subject:
            yield subject
    else:
        with manager as subject:
            yield subject
