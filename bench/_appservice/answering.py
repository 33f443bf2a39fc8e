"""Questions of people and their answers: latency, throughput, and CPU."""

from functools import partial
from statistics import quantiles
from typing import Any

from bench._appservice.sides import BESIDE, BOT, NODE, THREADS
from bench._appservice.stage import AT_ONCE, Stage
from bench._federation.processes import TICK
from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Side, Unit

NAMES = {NODE: "Palaver", BESIDE: "Palaver", BOT: "a bare mautrix bot", THREADS: "that bot answering in threads"}
LONE, MANY, AFTER = "lone", "many", "after"
WHAT = {
    LONE: "one message at a time",
    MANY: f"{AT_ONCE} messages at once",
    AFTER: "one message at a time, after all that",
}


async def _next(subject: Stage, seconds: float, side: str, load: str, row: str) -> dict[str, Any]:
    do, how = (MANY, {"at_once": AT_ONCE}) if load == MANY else (LONE, {})
    return await subject.runs[side, load].next(row, partial(subject.ask, side, do, seconds=seconds, **how))


async def per_second(subject: Stage, seconds: float, *, side: str, load: str) -> Measurement:
    """From the first message until the last answer was read."""
    run = await _next(subject, seconds, side, load, "per second")
    return rate(len(run["durations"]), run["seconds"])


async def latency(subject: Stage, seconds: float, *, side: str, load: str, percent: int) -> Measurement:
    """From sending a message until its answer is in the sender's `/sync`."""
    durations = (await _next(subject, seconds, side, load, str(percent)))["durations"]
    # `quantiles` needs two values, so a single one is used twice.
    cut = quantiles(durations if len(durations) > 1 else durations * 2, n=100, method="inclusive")
    return Measurement(1000 * cut[percent - 1], len(durations), sum(durations))


async def cpu(subject: Stage, seconds: float, *, side: str, load: str, of: str) -> Measurement:
    """Milliseconds per answered message; `of` "own" is the side's own process."""
    run = await _next(subject, seconds, side, load, of)
    # The kernel counts in ticks, of which a short run may have none.
    used = max(TICK, run["cpu"][side if of == "own" else of])
    return Measurement(1000 * used / len(run["durations"]), len(run["durations"]), used)


def _compared(name: str, what: str, unit: Unit, sample: Any, *, counts: bool = False) -> Row[Stage]:
    ours, other = (Side(NAMES[side], partial(sample, side=side)) for side in (NODE, BOT))
    return Row(name=name, what=what, unit=unit, ours=ours, other=other, counts=counts)


def rows() -> list[Row[Stage]]:
    """Throughput decides; the others inform. The order matters, because load changes a room."""
    answered = "messages of a person answered"
    what = f"{answered}, {WHAT[MANY]}"
    many = _compared(MANY, what, Unit.PER_SECOND, partial(per_second, load=MANY), counts=True)
    ours, other = (Side(NAMES[side], partial(per_second, side=side, load=MANY)) for side in (BESIDE, THREADS))
    what = f"{answered} in a thread, {WHAT[MANY]}"
    threads = Row(name="many-threads", what=what, unit=Unit.PER_SECOND, ours=ours, other=other, counts=False)
    return [*_latencies(LONE), *_costs(LONE), many, *_latencies(MANY), *_costs(MANY), *_latencies(AFTER), threads]


def _latencies(load: str) -> list[Row[Stage]]:
    return [
        _compared(
            f"{load}-p{percent}",
            f"message to answer, {WHAT[load]}, p{percent}",
            Unit.MILLISECONDS,
            partial(latency, load=load, percent=percent),
        )
        for percent in (50, 95)
    ]


def _costs(load: str) -> list[Row[Stage]]:
    what, ms = f"CPU per message, {WHAT[load]}", Unit.MILLISECONDS
    whose = {"own": "the node's own", "synapse": "Synapse", "synapse-postgres": "Postgres of Synapse"}
    ours = Side(NAMES[NODE], partial(cpu, side=NODE, load=load, of="node-postgres"))
    return [
        *(
            _compared(f"{load}-{of}", f"{what}, {name}", ms, partial(cpu, load=load, of=of))
            for of, name in whose.items()
        ),
        Row(name=f"{load}-postgres", what=f"{what}, our Postgres", unit=ms, ours=ours),
    ]
