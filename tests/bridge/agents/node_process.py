"""A process that runs a command as a node does, for tests that kill it.

`python -m tests.bridge.agents.node_process LOOP GRACE COMMAND…` writes a line for each message of
progress.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from bridge.agents.local.process import Command, ProcessLimits, run


async def tell(message: str) -> None:
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


async def main(grace: float, words: list[str]) -> None:
    command = Command(tuple(words), {"PATH": "/usr/bin:/bin"}, Path("/"), b"", {"FILE": "\0"})
    await run(command, ProcessLimits(3600, 1 << 20, grace), tell)


if __name__ == "__main__":
    start = uvloop.run if sys.argv[1] == "uvloop" else asyncio.run
    start(main(float(sys.argv[2]), sys.argv[3:]))
