"""A runner in this process, and its status messages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from bridge.agents.attached.runner import AgentDescription, AgentRunner
from bridge.agents.attached.runner_connection import AgentEndpoint
from bridge.agents.local.process import CommandSettings
from bridge.clock import now_ms
from tests.bridge.agents.attached.api_running import Api

TIMEOUT = 60.0


@dataclass
class Running:
    runner: AgentRunner = field(init=False)
    task: "asyncio.Task[None]" = field(init=False)
    said: list[str] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, sentence: str) -> None:
        self.said.append(sentence)
        self._news.set()

    async def until(self, part: str, times: int = 1) -> None:
        async with asyncio.timeout(TIMEOUT):
            while sum(part in sentence for sentence in self.said) < times:
                self._news.clear()
                await self._news.wait()


async def place(one: Api, agent_id: str = "worker") -> AgentEndpoint:
    return AgentEndpoint(f"http://127.0.0.1:{one.port}", agent_id, await one.token(agent_id))


@contextlib.asynccontextmanager
async def running(
    where: AgentEndpoint, script: str, *, program: str = "/bin/sh", parallel: int = 1, grace: float = TIMEOUT
) -> AsyncIterator[Running]:
    recipe = CommandSettings((program, "-c", script), {"PATH": "/usr/bin:/bin"}, Path("/"), TIMEOUT, 1 << 20, grace)
    made = Running()
    made.runner = AgentRunner(
        where, AgentDescription("claude", ("coding",), parallel), recipe, now_ms=now_ms, report=made.hear
    )
    made.task = asyncio.create_task(made.runner.run())
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)
