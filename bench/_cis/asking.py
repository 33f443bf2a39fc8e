"""Tasks that one node requests from another: latency and throughput."""

from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles
from typing import Any

from bench._cis.pair import PARALLEL, Pair
from bench._federation.processes import TICK
from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Side, Unit

OURS = "Palaver"
P50_MS, P95_MS = 10.0, 25.0
"""What is wanted. The specification allows 100 ms for one way."""


@dataclass(frozen=True, slots=True)
class Load:
    """This many concurrent tasks, for this multiple of a sample's seconds."""

    name: str
    what: str
    at_once: int
    longer: float = 1.0


ONE = Load("one", "one task at a time", 1)
TEN = Load("ten", "ten tasks at once", 10)
MANY = Load("sustained", f"{PARALLEL} tasks at once", PARALLEL, 2.0)


async def _next(subject: Pair, seconds: float, load: Load, row: str) -> dict[str, Any]:
    ask = partial(subject.ask, seconds * load.longer, load.at_once)
    return await subject.runs[load.name].next(row, ask)


async def latency(subject: Pair, seconds: float, *, load: Load, percent: int) -> Measurement:
    """From the request at one node until its answer is committed there."""
    durations = (await _next(subject, seconds, load, str(percent)))["durations"]
    # `quantiles` needs two values, so a single one is used twice.
    cut = quantiles(durations if len(durations) > 1 else durations * 2, n=100, method="inclusive")
    return Measurement(1000 * cut[percent - 1], len(durations), sum(durations))


async def per_second(subject: Pair, seconds: float, *, load: Load) -> Measurement:
    """From the first request until the last answer."""
    run = await _next(subject, seconds, load, "per second")
    return rate(len(run["durations"]), run["seconds"])


async def cpu(subject: Pair, seconds: float, *, load: Load, of: str) -> Measurement:
    """Milliseconds per task."""
    run = await _next(subject, seconds, load, of)
    # The kernel counts in ticks, of which a short run may have none.
    used, tasks = max(TICK, run["cpu"][of]), len(run["durations"])
    return Measurement(1000 * used / tasks, tasks, used)


async def first(subject: Pair, seconds: float) -> Measurement:
    """The first task of an agent: its user joins the other node's room."""
    durations = (await subject.runs[MANY.name].only(partial(subject.ask, seconds, MANY.at_once)))["first"]
    return Measurement(1000 * median(durations), len(durations), sum(durations))


def wanted(subject: Pair, seconds: float, *, ms: float) -> Measurement:
    """A target value, which is not measured."""
    return Measurement(ms, 1, 0.0)


def rows() -> list[Row[Pair]]:
    """The deciding row comes first; the others inform."""
    p50, p95, p99 = (partial(latency, percent=percent) for percent in (50, 95, 99))
    ms, what = Unit.MILLISECONDS, "request to response across two nodes"
    made = []
    for load in (ONE, TEN):
        made += [
            Row(
                name=f"{load.name}-p50",
                what=f"{what}, {load.what}, p50",
                unit=ms,
                ours=Side(OURS, partial(p50, load=load)),
                other=Side(f"{P50_MS:g} ms", partial(wanted, ms=P50_MS)),
                counts=load is ONE,
            ),
            Row(
                name=f"{load.name}-p95",
                what=f"{what}, {load.what}, p95",
                unit=ms,
                ours=Side(OURS, partial(p95, load=load)),
                other=Side(f"{P95_MS:g} ms", partial(wanted, ms=P95_MS)),
                counts=False,
            ),
            Row(
                name=f"{load.name}-p99",
                what=f"{what}, {load.what}, p99",
                unit=ms,
                ours=Side(OURS, partial(p99, load=load)),
            ),
        ]
    made += [
        Row(
            name=f"{ONE.name}-{of}",
            what=f"CPU per task, {ONE.what}, {of.replace('-', ': ')}",
            unit=ms,
            ours=Side(OURS, partial(cpu, load=ONE, of=of)),
        )
        for of in PROCESSES
    ]
    made += [
        Row(
            name="first",
            what="the first request of an agent that has never asked there",
            unit=ms,
            ours=Side(OURS, first),
        ),
        Row(name=MANY.name, what=f"tasks, {MANY.what}", ours=Side(OURS, partial(per_second, load=MANY))),
    ]
    made += [
        Row(
            name=f"{MANY.name}-{of}",
            what=f"CPU per task, {MANY.what}, {of.replace('-', ': ')}",
            unit=ms,
            ours=Side(OURS, partial(cpu, load=MANY, of=of)),
        )
        for of in PROCESSES
    ]
    return made


PROCESSES = ("asking", "asking-postgres", "answering", "answering-postgres")
