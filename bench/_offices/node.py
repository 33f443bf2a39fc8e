"""A Palaver node as its operator starts it: `palaver run`, with offices."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench._harness.child import Child, ChildError, child
from bench._harness.database import Database
from bench._harness.ports import LOOPBACK
from bench._offices.sides import Listener

START_SECONDS: Final = 120.0
_PALAVER: Final = (sys.executable, "-c", "from bridge.cli import main; main()")

CONFIGURATION: Final = """
server_name = "{name}"
data_dir = "data"

[listener]
hosts = ["{host}"]
port = {port}
{keys}

[database]
url = "{database}"

[metrics]
enabled = false

[log]
level = "warning"

[offices]
enabled = true
"""


@dataclass(frozen=True, slots=True)
class RunningNode:
    """A running node, and a token for its offices."""

    process: Child
    behind: Database
    listener: Listener


@asynccontextmanager
async def offices_node(
    directory: Path, name: str, port: int, behind: Database, more: str = "", keys: str = ""
) -> AsyncIterator[RunningNode]:
    """Start a node with default settings. `more` follows the section of offices, and `keys` are lines for
    another certificate than its own."""
    said = CONFIGURATION.format(name=name, host=LOOPBACK, port=port, database=behind.address, keys=keys)
    _write(directory, said + more)
    command = (*_PALAVER, "run", "--json", "-c", str(directory / "palaver.toml"))
    async with child(f"the node {name}", *command) as process:
        started = json.loads(await process.line(START_SECONDS))
        if "error" in started:
            raise ChildError(f"the node {name} does not start: {started['error']}")
        created = await _palaver(directory, "offices", "token", "create", "the benchmark")
        yield RunningNode(process, behind, Listener(port, created["token"]))


def _write(directory: Path, configuration: str) -> None:
    directory.mkdir()
    (directory / "palaver.toml").write_text(configuration)


async def _palaver(directory: Path, *words: str) -> Mapping[str, Any]:
    """Run another command of the node; return its result."""
    process = await asyncio.create_subprocess_exec(
        *_PALAVER, *words, "--json", cwd=directory, stdout=PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise ChildError(f"palaver {' '.join(words)}: {out.decode() or process.returncode}")
    answer: Mapping[str, Any] = json.loads(out)
    return answer
