"""Two nodes that exchange agents, each a process with its own Postgres, and an agent on one of them."""

import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

from bench._cis.agent import Settings
from bench._cis.measured_node import START_SECONDS, MeasuredNode, measured_node
from bench._federation.place import Place
from bench._federation.runs import Runs
from bench._harness.child import child, python_module
from bench._harness.database import database
from tests.support.ports import lasting_port
from tests.support.tls import Authority

ECHO = "echo"
PARALLEL = 64
"""Tasks that the agent works on at once, which is as many as an agent may."""


@dataclass
class Pair:
    """`asking` sends tasks to the agent at `answering`."""

    asking: MeasuredNode
    answering: MeasuredNode
    runs: defaultdict[str, Runs[dict[str, Any]]] = field(default_factory=lambda: defaultdict(Runs))

    async def ask(self, seconds: float, at_once: int) -> dict[str, Any]:
        """Keep this many tasks open. Returns the results and the CPU of each process."""
        before = self._cpu_seconds()
        how: dict[str, Any] = {"to": f"{ECHO}@{self.answering.name}", "seconds": seconds}
        came = await self.asking.ask("ask", at_once=at_once, **how)
        after = self._cpu_seconds()
        return {**came, "cpu": {name: after[name] - before[name] for name in after}}

    @property
    def remarks(self) -> Sequence[str]:
        """Return facts that the figures depend on."""
        return [
            f"Palaver {version('palaver')} on Python {python_version()}.",
            "Two nodes over TLS, a Postgres for each.",
            *self.asking.behind.remarks,
        ]

    def _cpu_seconds(self) -> dict[str, float]:
        asking, answering = self.asking.cpu_seconds(), self.answering.cpu_seconds()
        names = ("asking", "asking-postgres", "answering", "answering-postgres")
        return dict(zip(names, (*asking, *answering), strict=True))


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    """Start both; return when the agent can be reached."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = Place(directory, Authority("Authority of the benchmark"))
        names = [f"localhost:{lasting_port()}" for _ in range(2)]
        nodes = []
        for name, other in zip(names, reversed(names), strict=True):
            behind = await stack.enter_async_context(database())
            nodes.append(await stack.enter_async_context(measured_node(place, name, behind, [other])))
        asking, answering = nodes
        token = (await answering.ask("token", agent=ECHO))["token"]
        settings = Settings(f"https://{answering.name}", ECHO, token, str(place.trusted), PARALLEL)
        command = python_module("bench._cis.agent", settings.as_json())
        agent = await stack.enter_async_context(child("the agent", *command))
        await agent.line(START_SECONDS)
        await asking.ask("see", count=1)
        yield Pair(asking, answering)
