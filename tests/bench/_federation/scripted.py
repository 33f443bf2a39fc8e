"""Servers of which the load generator always says the same, so that the arithmetic can be told."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench._federation.servers import NODE, SYNAPSE, Servers
from bench._harness.child import child
from tests.support.synapse import Synapse
from tests.support.synapse.database import SQLite
from tests.support.tls import Authority

ANSWER = """
import json, sys
for line in sys.stdin:
    print(json.dumps(eval(sys.argv[1], json.loads(line))), flush=True)
"""


@asynccontextmanager
async def scripted(directory: Path, answer: str, pids: dict[str, int] | None = None) -> AsyncIterator[Servers]:
    """`answer` is an expression over what the generator was asked for."""
    authority = Authority()
    certificate, key = authority.issue("localhost").write(directory, "synapse")
    trusted, database = authority.write(directory, "ca"), SQLite(directory / "homeserver.db")
    synapse = Synapse(directory, 1, [trusted], certificate, key, database)
    async with child("the script", sys.executable, "-c", ANSWER, answer) as generator:
        yield Servers(synapse, "localhost:2", pids or {NODE: 0, SYNAPSE: 0}, generator, [])
