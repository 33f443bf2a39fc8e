"""A node that loads many agents of other, simulated nodes."""

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from bench._cis.crowd_generator import Settings
from bench._cis.measured_node import COMMAND_SECONDS, START_SECONDS, MeasuredNode, measured_node
from bench._federation.place import Place
from bench._federation.processes import resident_bytes
from bench._federation.runs import Runs
from bench._harness.child import Child, child, python_module
from bench._harness.database import Database, connected, database
from bridge.clock import now_ms
from tests.support.ports import lasting_port
from tests.support.tls import Authority

NODES = 10
AGENTS = 10_000
"""On each of them."""
FEW = 20
"""In a run that is too short to mean anything."""
TIMEOUT = 4.0
"""Seconds without a heartbeat after which the agents of a node are offline; 120 by default."""
BEAT = 1.0
SETTLE = 0.3
"""Seconds in which is done what follows a heartbeat."""


class Crowd:
    """The node is started on first use. All rows are computed from each single event."""

    def __init__(
        self, stack: AsyncExitStack, place: Place, behind: Database, generator: Child, nodes: list[str]
    ) -> None:
        self._stack = stack
        self._place = place
        self._behind = behind
        self._generator = generator
        self._nodes = nodes
        self._name = f"localhost:{lasting_port()}"
        self._running = AsyncExitStack()
        self._runs: defaultdict[str, Runs[dict[str, Any]]] = defaultdict(Runs)
        self._node: MeasuredNode
        self.agents = 0
        """Of each node."""

    @property
    def remarks(self) -> list[str]:
        """Return facts that the figures depend on."""
        return [
            f"{NODES} played nodes with {self.agents:,} agents each, whose rooms are joined over federation.",
            f"The timeout after which a node is dead is {TIMEOUT:g} s here.",
        ]

    async def once(self, what: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Return the first run."""
        return await self._runs[what].only(make)

    async def next(self, what: str, row: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Return the run for the next sample of a row."""
        return await self._runs[what].next(row, make)

    async def learned(self, seconds: float) -> dict[str, Any]:
        """Load all agents: the measured node joins the rooms of all nodes at the same time."""

        async def learn() -> dict[str, Any]:
            self.agents = AGENTS if seconds >= 1 else FEW
            await self._play("make", agents=self.agents)
            await self._stack.enter_async_context(self._running)
            self._node = await self._start()
            before = self._used()
            kept = await self._kept()
            began = perf_counter()
            await self._play("open")
            await self._node.ask("see", count=NODES * self.agents)
            took = perf_counter() - began
            used = self._used()
            changed = {name: used[name] - before[name] for name in used}
            now = await self._kept()
            return {"seconds": took, **changed, **{name: now[name] - kept[name] for name in now}}

        return await self.once("learn", learn)

    async def loaded(self) -> dict[str, Any]:
        """Load the routing table from the database in a new process."""
        command = python_module("bench._cis.table", self._name, self._behind.address)
        async with child("the routing table", *command) as process:
            said: dict[str, Any] = json.loads(await process.line(COMMAND_SECONDS))
        assert said["agents"] >= NODES * self.agents, "it has read all of them"
        return said

    async def beaten(self) -> dict[str, Any]:
        """Send a heartbeat of each node in sequence, until all are written."""
        before, began = self._used(), perf_counter()
        since = now_ms()
        await self._play("beat", to=self._name)
        await self._node.ask("hear", nodes=self._nodes, since=since)
        took = perf_counter() - began
        await asyncio.sleep(SETTLE)
        after = self._used()
        return {"seconds": took, **{name: after[name] - before[name] for name in after}}

    async def decided(self, seconds: float) -> dict[str, Any]:
        """Look agents up as fast as possible."""
        return await self._node.ask("decide", seconds=seconds)

    async def noticed(self) -> dict[str, Any]:
        """Detect a dead node: the delay beyond the timeout. The node is restarted with a shorter timeout, and
        receives heartbeats of all nodes first."""
        await self._play("keep beating", to=self._name, every=BEAT)
        await self._running.aclose()
        self._node = await self._start(heartbeat_interval_secs=BEAT, agent_timeout_secs=TIMEOUT)
        await self._node.ask("see", count=NODES * self.agents)
        await asyncio.sleep(2 * TIMEOUT)
        silent_at = await self._play("fall silent", to=self._name)
        seen = await self._node.ask("see", count=(NODES - 1) * self.agents)
        return {"seconds": (seen["at"] - silent_at) / 1000 - TIMEOUT}

    # -- inside --

    async def _start(self, **federation: Any) -> MeasuredNode:
        node = measured_node(self._place, self._name, self._behind, self._nodes, **federation)
        return await self._running.enter_async_context(node)

    async def _play(self, do: str, **how: Any) -> int:
        """Execute a command of the simulated nodes, and wait for its end."""
        line = await self._generator.ask(json.dumps({"do": do, **how}), COMMAND_SECONDS)
        at: int = json.loads(line)["at"]
        return at

    def _used(self) -> dict[str, float]:
        node, postgres = self._node.cpu_seconds()
        return {"cpu": node, "postgres": postgres, "memory": resident_bytes(self._node.process.pid)}

    async def _kept(self) -> dict[str, float]:
        """Return the rows of all tables and their bytes with indexes, and those of the routing table
        separately."""
        async with connected(self._behind.address) as connection:
            names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            rows = {name: await connection.fetchval(f'SELECT count(*) FROM "{name}"') for (name,) in names}
            sizes = {
                name: await connection.fetchval("SELECT pg_total_relation_size($1::regclass)", f'"{name}"')
                for name in rows
            }
        kept = {"rows": sum(rows.values()), "bytes": sum(sizes.values())}
        return {**kept, "table_bytes": sizes["agents"]}


@asynccontextmanager
async def crowd() -> AsyncIterator[Crowd]:
    """Start the simulated nodes, and the database of the measured node."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = Place(directory, Authority("Authority of the benchmark"))
        behind = await stack.enter_async_context(database())
        names = [f"localhost:{lasting_port()}" for _ in range(NODES)]
        certificate, key = place.certified()
        settings = Settings(names, str(certificate), str(key), str(place.trusted))
        command = python_module("bench._cis.crowd_generator", settings.as_json())
        generator = await stack.enter_async_context(child("the played nodes", *command))
        await generator.line(START_SECONDS)
        yield Crowd(stack, place, behind, generator, names)
