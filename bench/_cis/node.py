"""The measured Palaver node: complete, as in production, with additional commands on standard input.

`python -m bench._cis.node CONFIGURATION`.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from time import perf_counter
from typing import Any

import uvloop

from bench._cis.requester import Requester
from bench._harness.lifeline import lines_from_parent, tell_parent
from bridge.agents.address import AgentAddress
from bridge.agents.routing import Remote
from bridge.clock import now_ms
from bridge.config.config import Config, Log
from bridge.observability.log import configure_logging
from bridge.run import Node

TIMEOUT = 240.0
"""Seconds for what another node has to do first."""
LOOK = 0.002
"""Seconds."""


class Told:
    """The commands that the node can execute."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._table = node.core.core.table
        self._requester = Requester(node.config.server_name, node.core.core.tasks, node.core.replies)

    async def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Execute the command of a line."""
        match command.pop("do"):
            case "token":
                token, _ = await self._node.core.tokens.create(command["agent"], "for the benchmark", None)
                return {"token": token.text}
            case "ask":
                return await self._requester.ask(**command)
            case "see":
                return await self._see(**command)
            case "hear":
                return await self._hear(**command)
            case "decide":
                return self._decide(**command)
            case other:
                raise AssertionError(f"unknown command {other}")

    async def _see(self, count: int, node_id: str | None = None) -> dict[str, Any]:
        """Wait until this many agents of one other node, or of all, are known as online."""

        def seen() -> bool:
            nodes = [one.node_id for one in self._table.table.nodes()] if node_id is None else [node_id]
            others = [one for one in nodes if one != self._table.node_id]
            return sum(map(self._table.table.count, others)) == count

        await self._until(seen)
        return {"at": now_ms()}

    async def _hear(self, nodes: Sequence[str], since: int) -> dict[str, Any]:
        """Wait until a heartbeat of each node has been received and written since then."""
        table = self._table.table
        async with asyncio.timeout(TIMEOUT):
            for node_id in nodes:
                # A heartbeat without changes notifies no subscriber.
                while (node := table.node(node_id)) is None or (node.last_heartbeat or 0) < since:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK)
        return {"at": now_ms()}

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            async with self._changes() as changed:
                while not condition():
                    changed.clear()
                    await changed.wait()

    @contextlib.asynccontextmanager
    async def _changes(self) -> AsyncIterator[asyncio.Event]:
        changed = asyncio.Event()
        end = self._table.subscribe(lambda changes: changed.set())
        try:
            yield changed
        finally:
            end()

    def _decide(self, seconds: float) -> dict[str, Any]:
        """Look agents of other nodes up by their addresses as text."""
        agents = [str(agent.address) for agent in self._table.table.agents()]
        decided = 0
        began = perf_counter()
        while perf_counter() < began + seconds:
            for text in agents[:1_000]:
                target = AgentAddress.parse(text)
                assert isinstance(target, AgentAddress), "it was written by one"
                assert isinstance(self._table.route(target), Remote), "all are elsewhere"
            decided += len(agents[:1_000])
        return {"decided": decided, "seconds": perf_counter() - began}


async def run(configuration: str) -> None:
    """Run until the benchmark ends."""
    configure_logging(Log(level="warning"))
    node = Node(Config.model_validate_json(configuration))
    await node.start()
    try:
        told = Told(node)
        tell_parent(ready=True)
        async for line in lines_from_parent():
            tell_parent(**await told.answer(json.loads(line)))
    finally:
        await node.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(sys.argv[1]))
