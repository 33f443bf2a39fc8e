"""Latencies without load, and memory: a message, a room, and the memory used."""

from functools import partial
from statistics import quantiles

from bench._federation.compared import compared
from bench._federation.processes import resident_bytes
from bench._federation.servers import Servers
from bench._harness.measurement import Measurement
from bench._harness.row import Row, Unit

PER_SECOND = 10.0
MEMBERS = 500


async def latency(subject: Servers, seconds: float, *, percent: int, measured: str) -> Measurement:
    """From the beginning of the request with an event until a reader has it."""
    runs = subject.runs["latency", measured]
    ask = partial(subject.ask, measured, "latency", rate=PER_SECOND, seconds=seconds)
    durations = (await runs.next(str(percent), ask))["seconds"]
    # `quantiles` needs two values, so a single one is used twice.
    cut = quantiles(durations if len(durations) > 1 else durations * 2, n=100, method="inclusive")
    return Measurement(1000 * cut[percent - 1], len(durations), sum(durations))


async def join(subject: Servers, seconds: float, *, until: str, measured: str) -> Measurement:
    """Until the server reports that its user has `joined`, or until the room is `complete`."""
    ask = partial(subject.ask, measured, "join", members=MEMBERS)
    took = (await subject.runs["join", measured].next(until, ask))[until]
    return Measurement(1000 * took, 1, took)


def memory(subject: Servers, seconds: float, *, measured: str) -> Measurement:
    """The memory now, after the rows above."""
    resident = resident_bytes(subject.pids[measured])
    return Measurement(resident / 2**20, 1, 0.0)


def rows() -> list[Row[Servers]]:
    """All rows inform."""
    readable, joining = f"{PER_SECOND:g} events per second", f"joining a room of {MEMBERS}"
    p50, p95 = partial(latency, percent=50), partial(latency, percent=95)
    joined, complete = partial(join, until="joined"), partial(join, until="complete")
    ms = Unit.MILLISECONDS
    return [
        compared("latency-p50", f"{readable}, until half of them can be read", ms, p50, counts=False),
        compared("latency-p95", f"{readable}, until 95 % of them can be read", ms, p95, counts=False),
        compared("join", f"{joining}, until the user is in", ms, joined, counts=False),
        compared("join-complete", f"{joining}, until all is known", ms, complete, counts=False),
        compared("memory", "resident memory after all that", Unit.MEBIBYTES, memory, counts=False),
    ]
