"""The whole setup on one machine: both servers, and the members of their offices."""

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any, Final

from bench._federation.processes import cpu_seconds, family_cpu_seconds
from bench._federation.runs import Runs
from bench._harness.child import Child, ChildError, child, python_module
from bench._harness.database import database
from bench._offices import audit
from bench._offices.node import RunningNode, offices_node
from bench._offices.sides import NODE, REFERENCE, Listener, Place, Settings, as_dict
from tests.support.ports import lasting_port
from tests.support.smcp import NotInstalled, Peers, ReferenceServer

OFFICES: Final = 50
PUBLISHED: Final = "0.4.2"
POSTGRES, GENERATOR = "postgres", "generator"
START_SECONDS: Final = 120.0
COMMAND_SECONDS: Final = 300.0
QUIET_SECONDS, QUIET_SHARE, QUIET_TIMEOUT = 0.4, 0.1, 60.0
"""A process is quiet when it uses less than this share of a CPU for so long."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The records that were not in the rooms at the end of a run, and how long sending them took."""

    untold: int
    written: int
    seconds: float


@dataclass
class Stage:
    """Only the server that is being measured has work."""

    node: RunningNode
    generator: Child
    pids: Mapping[str, int]
    """The processes of either side, our Postgres, and the load."""
    calls: int = 0
    """Calls that were sent to the node."""
    runs: defaultdict[tuple[str, str], Runs[dict[str, Any]]] = field(default_factory=lambda: defaultdict(Runs))
    recorded: defaultdict[str, list[Behind]] = field(default_factory=lambda: defaultdict(list))
    busy: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def ask(self, side: str, load: str, **how: Any) -> dict[str, Any]:
        """Run a load. Returns its results and the CPU used until everything was idle again: deferred work
        counts as well."""
        before = self._cpu_seconds()
        line = await self.generator.ask(json.dumps({"of": side, **how}), COMMAND_SECONDS)
        came: dict[str, Any] = json.loads(line)
        generated = self._cpu_seconds()[GENERATOR] - before[GENERATOR]
        self.busy[f"{load} at the {side}"].append(generated / came["seconds"])
        if side == NODE:
            await self._until_recorded(load, len(came["durations"]))
        await self._until_quiet()
        after = self._cpu_seconds()
        return {**came, "cpu": {name: after[name] - before[name] for name in after}}

    @property
    def remarks(self) -> Sequence[str]:
        """Return facts that the figures depend on."""
        used = "; ".join(f"{load} {max(shares):.0%}" for load, shares in sorted(self.busy.items()))
        ours, its = f"Palaver {version('palaver')}", f"a2c-smcp {PUBLISHED} under uvicorn"
        return [
            f"{ours} and {its} on Python {python_version()}; {OFFICES} offices of an Agent and a Computer.",
            *self.node.behind.remarks,
            *(self._remark(load, recorded) for load, recorded in self.recorded.items()),
            f"What the load generator used of a CPU, at most: {used}.",
        ]

    def _remark(self, load: str, recorded: Sequence[Behind]) -> str:
        most = max(recorded, key=lambda one: one.untold)
        return (
            f"Rooms at the end of a run, {load}: of {most.written:,} records {most.untold:,} were untold at"
            f" most, and were told in {most.seconds:.1f} s."
        )

    async def _until_recorded(self, load: str, calls: int) -> None:
        """Wait until all calls and answers are recorded, and the rooms have all of them."""
        left = await audit.untold(self.node.behind)
        self.calls += calls
        written = await audit.written_down(self.node.behind)
        found = written.get("called"), written.get("answered")
        assert found == (self.calls, self.calls), f"of {self.calls} calls and answers the node has {found}"
        self.recorded[load].append(Behind(left, 2 * calls, await audit.until_told(self.node.behind)))
        lost = await audit.not_taken(self.node.behind)
        assert lost == 0, f"rooms have not taken {lost} records of what happens in their offices"

    def _cpu_seconds(self) -> dict[str, float]:
        return {
            name: family_cpu_seconds(pid) if name == POSTGRES else cpu_seconds(pid) for name, pid in self.pids.items()
        }

    async def _until_quiet(self) -> None:
        """Wait until the side is idle, so that its work does not affect the other side."""
        async with asyncio.timeout(QUIET_TIMEOUT):
            before = self._cpu_seconds()
            while True:
                await asyncio.sleep(QUIET_SECONDS)
                after = self._cpu_seconds()
                if all(after[name] - before[name] < QUIET_SECONDS * QUIET_SHARE for name in after):
                    return
                before = after


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    """Start everything; return when all members have joined and the rooms have them."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        behind = await stack.enter_async_context(database())
        node = await stack.enter_async_context(
            offices_node(directory / "node", "kitchen.local", lasting_port(), behind)
        )
        reference = await _reference(stack, directory)
        assert reference.process is not None, "it has been started"
        listeners = {NODE: node.listener, REFERENCE: Listener(reference.port, reference.token)}
        settings = Settings({side: _places(listener) for side, listener in listeners.items()})
        command = python_module("bench._offices.load_generator", json.dumps(as_dict(settings)))
        generator = await stack.enter_async_context(child("the load generator", *command))
        await generator.line(START_SECONDS)
        await audit.until_told(behind)
        pids = {
            NODE: node.process.pid,
            POSTGRES: behind.pid,
            REFERENCE: reference.process.pid,
            GENERATOR: generator.pid,
        }
        yield Stage(node, generator, pids)


def _places(listener: Listener) -> tuple[Place, ...]:
    return tuple(Place(listener, listener, f"office-{number}") for number in range(OFFICES))


async def _reference(stack: AsyncExitStack, directory: Path) -> ReferenceServer:
    """Run the published server as this repository's tests do."""
    peers = await stack.enter_async_context(Peers(directory / "reference", A2C_SMCP_LOG_LEVEL="warning"))
    try:
        return await peers.server(PUBLISHED)
    except NotInstalled as problem:
        raise ChildError(str(problem)) from None
