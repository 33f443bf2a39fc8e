"""Calls of Agents and their answers: latency, throughput, and CPU."""

from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from typing import Any, Final

from bench._federation.processes import TICK
from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Side, Unit
from bench._offices.sides import NODE, REFERENCE
from bench._offices.stage import OFFICES, POSTGRES, Stage

NAMES: Final = {NODE: "Palaver", REFERENCE: "the reference server"}


@dataclass(frozen=True, slots=True)
class Load:
    """This many concurrent calls, in this many offices."""

    name: str
    what: str
    offices: int
    at_once: int


LONE: Final = Load("lone", "one office, one call at a time", 1, 1)
ONE: Final = Load("one", "one office, 32 calls at once", 1, 32)
FIFTY: Final = Load("fifty", "fifty offices, 64 calls at once", OFFICES, 64)


async def _next(subject: Stage, seconds: float, side: str, load: Load, row: str) -> dict[str, Any]:
    ask = partial(subject.ask, side, load.name, offices=load.offices, at_once=load.at_once, seconds=seconds)
    return await subject.runs[side, load.name].next(row, ask)


async def per_second(subject: Stage, seconds: float, *, side: str, load: Load) -> Measurement:
    """From the first call until the last answer was read."""
    run = await _next(subject, seconds, side, load, "per second")
    return rate(len(run["durations"]), run["seconds"])


async def latency(subject: Stage, seconds: float, *, side: str, load: Load, percent: int) -> Measurement:
    """From sending a call until its answer was read."""
    durations = (await _next(subject, seconds, side, load, str(percent)))["durations"]
    # `quantiles` needs two values, so a single one is used twice.
    cut = quantiles(durations if len(durations) > 1 else durations * 2, n=100, method="inclusive")
    return Measurement(1000 * cut[percent - 1], len(durations), sum(durations))


async def cpu(subject: Stage, seconds: float, *, side: str, load: Load, of: str | None = None) -> Measurement:
    """Milliseconds per call; of the side's own process by default."""
    name = of or side
    run = await _next(subject, seconds, side, load, name)
    # The kernel counts in ticks, of which a short run may have none.
    used, calls = max(TICK, run["cpu"][name]), len(run["durations"])
    return Measurement(1000 * used / calls, calls, used)


def _compared(name: str, what: str, unit: Unit, sample: Any, *, counts: bool = False) -> Row[Stage]:
    ours, other = (Side(NAMES[side], partial(sample, side=side)) for side in (NODE, REFERENCE))
    return Row(name=name, what=what, unit=unit, ours=ours, other=other, counts=counts)


def rows() -> list[Row[Stage]]:
    """Throughput decides; the others inform."""
    ms, made = Unit.MILLISECONDS, []
    for load in (ONE, FIFTY, LONE):
        if load is not LONE:
            sample = partial(per_second, load=load)
            made.append(_compared(load.name, f"calls, {load.what}", Unit.PER_SECOND, sample, counts=True))
        made += [
            _compared(
                f"{load.name}-p{percent}",
                f"call to answer, {load.what}, p{percent}",
                ms,
                partial(latency, load=load, percent=percent),
            )
            for percent in (50, 95)
        ]
        own = f"CPU per call, {load.what}, the server's own"
        made.append(_compared(f"{load.name}-own", own, ms, partial(cpu, load=load)))
        ours = Side(NAMES[NODE], partial(cpu, side=NODE, load=load, of=POSTGRES))
        what = f"CPU per call, {load.what}, our Postgres"
        made.append(Row(name=f"{load.name}-postgres", what=what, unit=ms, ours=ours))
    return made
