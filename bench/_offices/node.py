"""Our node as its operator starts it: `palaver run`, with offices."""

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
    """It runs, and lets in whoever has the token."""

    process: Child
    behind: Database
    listener: Listener


@asynccontextmanager
async def offices_node(
    directory: Path, name: str, port: int, behind: Database, more: str = "", keys: str = ""
) -> AsyncIterator[RunningNode]:
    """With the settings that it has when nobody says anything else. `more` goes on from those of offices, and
    `keys` are lines for its certificate, if it is to have another than that of its own making."""
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
    """Another of its commands, and what that answers."""
    process = await asyncio.create_subprocess_exec(
        *_PALAVER, *words, "--json", cwd=directory, stdout=PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise ChildError(f"palaver {' '.join(words)}: {out.decode() or process.returncode}")
    answer: Mapping[str, Any] = json.loads(out)
    return answer
