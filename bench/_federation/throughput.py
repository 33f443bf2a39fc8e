"""PDUs per second that a reader can read, and the CPU per PDU."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from bench._federation.compared import compared
from bench._federation.processes import TICK
from bench._federation.servers import NODE, SYNAPSE, Servers
from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Unit

# What there is to send, so that signing it does not take longer than sending it. Each server gets at least
# twice of what it has ever worked off.
_MOST_PER_SECOND = {NODE: 6_000, SYNAPSE: 400}
# In two seconds our node works off several thousand events; what they cost is settled long before.
_MOST_SECONDS = {NODE: 2.0, SYNAPSE: 60.0}


@dataclass(frozen=True, slots=True)
class Load:
    """This many rooms, of this many servers that send at once."""

    name: str
    what: str
    rooms: int
    origins: int


LOADS = (
    Load("one-room", "one room", 1, 1),
    Load("rooms", "40 rooms, one origin", 40, 1),
    Load("origins", "40 rooms, four origins", 40, 4),
)


async def _run(subject: Servers, load: Load, measured: str, seconds: float) -> dict[str, Any]:
    seconds = min(seconds, _MOST_SECONDS[measured])
    return await subject.ask(
        measured,
        "load",
        rooms=load.rooms,
        origins=load.origins,
        seconds=seconds,
        events=max(load.rooms, round(seconds * _MOST_PER_SECOND[measured])),
    )


async def per_second(subject: Servers, seconds: float, *, load: Load, measured: str) -> Measurement:
    """From the first transaction until the last event can be read."""
    run = await _next(subject, seconds, load, measured, "per second")
    return rate(run["events"], run["seconds"])


async def cpu(subject: Servers, seconds: float, *, load: Load, measured: str, of: str) -> Measurement:
    """Milliseconds per event, of the `server` or of its `postgres`."""
    run = await _next(subject, seconds, load, measured, of)
    # The kernel counts in ticks, of which a short run may have none.
    used = max(TICK, run[f"{of}_cpu"])
    return Measurement(1000 * used / run["events"], run["events"], used)


async def _next(subject: Servers, seconds: float, load: Load, measured: str, row: str) -> dict[str, Any]:
    runs = subject.runs[load.name, measured]
    return await runs.next(row, partial(_run, subject, load, measured, seconds))


def rows() -> list[Row[Servers]]:
    """Three rows per load. The CPU of Postgres informs: both sides use the same one."""
    made = []
    for load in LOADS:
        rated, used = partial(per_second, load=load), partial(cpu, load=load)
        name, what, ms = load.name, load.what, Unit.MILLISECONDS
        in_postgres = f"CPU of Postgres per PDU, {what}"
        made += [
            compared(name, f"PDUs, {what}", Unit.PER_SECOND, rated, counts=True),
            compared(f"{name}-cpu", f"CPU per PDU, {what}", ms, partial(used, of="server"), counts=True),
            compared(f"{name}-postgres", in_postgres, ms, partial(used, of="postgres"), counts=False),
        ]
    return made
