"""A node's process with its Postgres."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench._federation.place import Place
from bench._federation.processes import cpu_seconds, family_cpu_seconds
from bench._harness.child import Child, child, python_module
from bench._harness.database import Database

START_SECONDS = 120.0
COMMAND_SECONDS = 300.0


@dataclass(frozen=True)
class MeasuredNode:
    """A node that runs commands of the benchmark."""

    name: str
    process: Child
    behind: Database

    async def ask(self, do: str, **how: Any) -> dict[str, Any]:
        """Run a command; return its answer."""
        line = await self.process.ask(json.dumps({"do": do, **how}), COMMAND_SECONDS)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def cpu_seconds(self) -> tuple[float, float]:
        """Return the CPU of the node, and of all processes of its Postgres, so far."""
        return cpu_seconds(self.process.pid), family_cpu_seconds(self.behind.pid)


@asynccontextmanager
async def measured_node(
    place: Place, name: str, behind: Database, peers: Sequence[str], **federation: Any
) -> AsyncIterator[MeasuredNode]:
    """Start a node with default settings; `federation` has different values for the section
    `[agent_federation]`."""
    configuration = _configuration(place, name, behind, peers, federation)
    command = python_module("bench._cis.node", json.dumps(configuration))
    async with child(f"the node {name}", *command) as process:
        await process.line(START_SECONDS)
        yield MeasuredNode(name, process, behind)


def _configuration(
    place: Place, name: str, behind: Database, peers: Sequence[str], federation: dict[str, Any]
) -> dict[str, Any]:
    certificate, key = place.certified()
    port = name.rpartition(":")[2]
    return {
        "server_name": name,
        "data_dir": str(place.directory / f"node-{port}"),
        "listener": {"port": int(port), "certificate": str(certificate), "private_key": str(key)},
        "database": {"url": behind.address},
        "federation": {"authorities": str(place.trusted)},
        "metrics": {"port": 0},
        "agent_federation": {"peers": [{"node_id": peer} for peer in peers], **federation},
    }
