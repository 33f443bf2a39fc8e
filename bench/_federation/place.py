"""The files of a run, the certificates of its servers, and the Palaver node."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._federation.measured import NodeSettings
from bench._harness.child import child, python_module
from bench._harness.database import Database
from tests.support.ports import lasting_port
from tests.support.tls import Authority

_START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Place:
    """All servers are on loopback."""

    directory: Path
    authority: Authority

    @property
    def trusted(self) -> Path:
        """The authority's certificate."""
        return self.authority.write(self.directory, "ca")

    def certified(self) -> tuple[Path, Path]:
        """Issue a certificate for loopback, with its key."""
        return self.authority.issue("localhost", "127.0.0.1", "::1").write(self.directory, "server")


@asynccontextmanager
async def our_node(place: Place, behind: Database, peers: Sequence[str]) -> AsyncIterator[NodeSettings]:
    """Run a node with that Postgres in its own process; it responds when the block begins."""
    name, socket = f"localhost:{lasting_port()}", place.directory / "node.socket"
    configuration = _configuration(place, name, behind, peers)
    command = python_module("bench._federation.node", json.dumps(configuration), str(socket))
    async with child("our node", *command) as node:
        await node.line(_START_SECONDS)
        yield NodeSettings(name, str(socket), node.pid, behind.pid)


def _configuration(place: Place, name: str, behind: Database, peers: Sequence[str]) -> dict[str, Any]:
    """Return the configuration as an operator would write it: closed to all other servers."""
    certificate, key = place.certified()
    return {
        "server_name": name,
        "data_dir": str(place.directory / "node"),
        "listener": {"port": int(name.rpartition(":")[2]), "certificate": str(certificate), "private_key": str(key)},
        "database": {"url": behind.address},
        "federation": {"authorities": str(place.trusted)},
        "metrics": {"port": 0},
        "peers": [{"server_name": peer} for peer in peers],
    }
