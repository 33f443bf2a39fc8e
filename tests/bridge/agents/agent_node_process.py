"""A node with one configured agent in a process of its own, for a test that kills it.

`python -m tests.bridge.agents.agent_node_process URL DIRECTORY SCRIPT REQUEST…` makes the requests, and
prints a line when it has.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from bridge.config.agents import Agent
from storage.connect import DatabaseAddress
from tests.bridge.agents.agent_node import agent_node
from tests.support.postgres import pool_on


async def main(url: str, directory: Path, script: str, requests: list[str]) -> None:
    agent = Agent(id="worker", command=["/bin/sh", "-c", script])
    async with pool_on(DatabaseAddress.from_url(url)) as database, agent_node(database, directory, [agent]) as node:
        for name in requests:
            await node.ask(name)
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4:]))
