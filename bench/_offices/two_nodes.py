"""An office with its Agent at one node and its Computer at another, beside an office at a single node."""

import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from bench._federation.place import Place as Certified
from bench._federation.runs import Runs
from bench._harness.child import Child, child, python_module
from bench._harness.database import Database, database
from bench._harness.measurement import Measurement
from bench._harness.row import Row, Side, Unit
from bench._offices import audit
from bench._offices.node import RunningNode, offices_node
from bench._offices.sides import Place, Settings, as_dict
from bench._offices.stage import COMMAND_SECONDS, START_SECONDS
from tests.support.ports import lasting_port
from tests.support.tls import Authority

OURS: Final = "Palaver"
MORE_MS: Final = 15.0
"""What a call across two nodes may take beyond one at a single node."""
ACROSS, LOCAL = "across", "local"
OFFICE: Final = "office"

# Both are closed to all other servers. Each configures whose members may join its offices.
FEDERATION: Final = """nodes = ["{other}"]

[federation]
authorities = "{authorities}"

[[peers]]
server_name = "{other}"

[[agent_federation.peers]]
node_id = "{other}"
"""


@dataclass
class TwoNodes:
    """The office belongs to the node of its Computer."""

    generator: Child
    behind: Sequence[Database]
    runs: Runs[dict[str, list[float]]] = field(default_factory=Runs)

    async def ask(self, seconds: float) -> dict[str, list[float]]:
        """Run single calls, first in the one office and then in the other."""
        return {name: await self._call(name, seconds / 2) for name in (LOCAL, ACROSS)}

    async def _call(self, name: str, seconds: float) -> list[float]:
        command = json.dumps({"of": name, "offices": 1, "at_once": 1, "seconds": seconds})
        came = json.loads(await self.generator.ask(command, COMMAND_SECONDS))
        for one in self.behind:
            await audit.until_told(one)
        durations: list[float] = came["durations"]
        return durations

    @property
    def remarks(self) -> Sequence[str]:
        """Return facts that the figures depend on."""
        return ["Across: two nodes over TLS, a Postgres for each; one call at a time."]


async def beyond(subject: TwoNodes, seconds: float) -> Measurement:
    """Milliseconds: the median across two nodes, minus that at one node."""
    run = await subject.runs.next("beyond", partial(subject.ask, seconds))
    more = median(run[ACROSS]) - median(run[LOCAL])
    return Measurement(1000 * more, len(run[ACROSS]), sum(run[ACROSS]))


async def latency(subject: TwoNodes, seconds: float, *, name: str, percent: int) -> Measurement:
    """From sending a call until its answer was read."""
    durations = (await subject.runs.next(f"{name}-p{percent}", partial(subject.ask, seconds)))[name]
    # `quantiles` needs two values, so a single one is used twice.
    cut = quantiles(durations if len(durations) > 1 else durations * 2, n=100, method="inclusive")
    return Measurement(1000 * cut[percent - 1], len(durations), sum(durations))


def wanted(subject: TwoNodes, seconds: float) -> Measurement:
    """A target value, which is not measured."""
    return Measurement(MORE_MS, 1, 0.0)


def rows() -> list[Row[TwoNodes]]:
    """The target comes first; the others inform."""
    ms, what = Unit.MILLISECONDS, "call to answer across two nodes, one call at a time"
    made = [
        Row(
            name=f"{ACROSS}-beyond",
            what=f"{what}, p50, beyond that at one node",
            unit=ms,
            ours=Side(OURS, beyond),
            other=Side(f"{MORE_MS:g} ms", wanted),
            counts=False,
        )
    ]
    made += [
        Row(
            name=f"{ACROSS}-p{percent}",
            what=f"{what}, p{percent}",
            unit=ms,
            ours=Side(OURS, partial(latency, name=ACROSS, percent=percent)),
        )
        for percent in (50, 95)
    ]
    return made


@asynccontextmanager
async def two_nodes() -> AsyncIterator[TwoNodes]:
    """Start everything; return when all members have joined and the rooms have them."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certified = Certified(directory, Authority("Authority of the benchmark"))
        ports = [lasting_port() for _ in range(2)]
        behind = [await stack.enter_async_context(database()) for _ in ports]
        home, away = [
            await stack.enter_async_context(
                _node(directory / str(number), certified, port, ports[1 - number], behind[number])
            )
            for number, port in enumerate(ports)
        ]
        settings = Settings(
            {
                LOCAL: (Place(away.listener, away.listener, OFFICE),),
                ACROSS: (Place(away.listener, home.listener, f"{OFFICE}@{_name(ports[0])}"),),
            }
        )
        command = python_module("bench._offices.load_generator", json.dumps(as_dict(settings)))
        generator = await stack.enter_async_context(child("the load generator", *command))
        await generator.line(START_SECONDS)
        for one in behind:
            await audit.until_told(one)
        yield TwoNodes(generator, behind)


@asynccontextmanager
async def _node(
    directory: Path, certified: Certified, port: int, other: int, behind: Database
) -> AsyncIterator[RunningNode]:
    certificate, key = certified.certified()
    more = FEDERATION.format(other=_name(other), authorities=certified.trusted)
    keys = f'certificate = "{certificate}"\nprivate_key = "{key}"'
    async with offices_node(directory, _name(port), port, behind, more, keys) as node:
        yield node


def _name(port: int) -> str:
    return f"localhost:{port}"
