"""The cost of knowing a hundred thousand agents on ten nodes."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bench._cis.crowd import NODES, Crowd
from bench._federation.processes import TICK
from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Side, Unit

OURS = "Palaver"


async def learned(subject: Crowd, seconds: float, *, of: str) -> Measurement:
    """Seconds until all are known, or the resources used by then."""
    found = await subject.learned(seconds)
    return Measurement(found[of], NODES * subject.agents, found["seconds"])


async def each(subject: Crowd, seconds: float, *, of: str) -> Measurement:
    """The same per agent."""
    found, agents = await subject.learned(seconds), NODES * subject.agents
    return Measurement(found[of] / agents, agents, found["seconds"])


async def loaded(subject: Crowd, seconds: float, *, of: str) -> Measurement:
    """Load them in a new process."""
    await subject.learned(seconds)
    found = await subject.next("load", of, subject.loaded)
    value = found[of] / found["agents"] if of == "memory" else found[of]
    return Measurement(value, found["agents"], found["seconds"])


async def beaten(subject: Crowd, seconds: float, *, of: str) -> Measurement:
    """Milliseconds per interval."""
    await subject.learned(seconds)
    found = await subject.next("beat", of, subject.beaten)
    # The kernel counts in ticks, of which a short interval may have none.
    return Measurement(1000 * max(TICK, found[of]), NODES, found["seconds"])


async def decided(subject: Crowd, seconds: float) -> Measurement:
    """Each address is parsed from text first."""
    await subject.learned(seconds)
    found = await subject.decided(min(seconds, 1.0))
    return rate(found["decided"], found["seconds"])


async def noticed(subject: Crowd, seconds: float) -> Measurement:
    """Seconds beyond the timeout."""
    await subject.learned(seconds)
    found = await subject.once("notice", subject.noticed)
    return Measurement(found["seconds"], 1, found["seconds"])


Sample = Callable[[Crowd, float], Awaitable[Measurement]]


def rows() -> list[Row[Crowd]]:
    """All rows inform. The last one ends the node, and a new one replaces it."""

    def row(name: str, what: str, unit: Unit, sample: Sample) -> Row[Any]:
        return Row(name=name, what=what, unit=unit, ours=Side(OURS, sample))

    seconds, ms, count = Unit.SECONDS, Unit.MILLISECONDS, Unit.ROWS
    learning, loading = "learn all agents from the rooms of ten nodes", "read all agents when a node starts"
    beating = "a heartbeat of each of the ten nodes"
    return [
        row("learn", learning, seconds, partial(learned, of="seconds")),
        row("learn-cpu", f"{learning}, CPU", seconds, partial(learned, of="cpu")),
        row("learn-postgres", f"{learning}, CPU of Postgres", seconds, partial(learned, of="postgres")),
        row("learn-memory", f"{learning}, memory for each", Unit.BYTES, partial(each, of="memory")),
        row("rows", "rows in Postgres for each agent, its event among them", count, partial(each, of="rows")),
        row("rows-bytes", "bytes in Postgres for each agent", Unit.BYTES, partial(each, of="bytes")),
        row("table-bytes", "of these the routing table", Unit.BYTES, partial(each, of="table_bytes")),
        row("load", loading, seconds, partial(loaded, of="seconds")),
        row("load-cpu", f"{loading}, CPU", seconds, partial(loaded, of="cpu")),
        row("load-memory", f"{loading}, memory for each", Unit.BYTES, partial(loaded, of="memory")),
        row("beat", f"{beating}, until all are written", ms, partial(beaten, of="seconds")),
        row("beat-cpu", f"{beating}, CPU", ms, partial(beaten, of="cpu")),
        row("beat-postgres", f"{beating}, CPU of Postgres", ms, partial(beaten, of="postgres")),
        row("route", "decisions where an agent is", Unit.PER_SECOND, decided),
        row("notice", "that a node is dead, beyond the timeout", seconds, noticed),
    ]
