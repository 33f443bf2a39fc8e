"""An agent that answers every task with its prompt, attached to its node over the WebSocket.

`python -m bench._cis.agent SETTINGS`: reports that it is ready when the node has attached it.
"""

import asyncio
import dataclasses
import json
import secrets
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass

import uvloop

from bench._harness.lifeline import tell_parent, until_abandoned
from bridge.agents.attached.messages import Push, RegisterResponse, Task, TaskCallResponse
from bridge.agents.attached.runner_connection import AgentConnection, AgentEndpoint, connect


@dataclass(frozen=True)
class Settings:
    """The node's address, and the agent's name and token. `parallel` is the number of concurrent tasks."""

    url: str
    agent_id: str
    token: str
    authority: str
    parallel: int

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


class Echo:
    """The least that an agent has to implement."""

    def __init__(self) -> None:
        self._session = secrets.token_hex(12)
        self._give: Callable[[Task], object] | None = None

    def pushed(self, push: Push) -> None:
        """Handle a push of the node."""
        if push.task is not None:
            assert self._give is not None, "tasks are only pushed after the registration"
            self._give(push.task)

    async def work(self, connection: AgentConnection, parallel: int) -> None:
        """Run until the connection is closed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(connection.listen())
            self._give = lambda task: group.create_task(self._answer(connection, task))
            said = {"session": self._session, "parallel": parallel, "queue": 10_000}
            await connection.call("register", said, RegisterResponse)
            tell_parent(ready=True)

    async def _answer(self, connection: AgentConnection, task: Task) -> None:
        """Answering also begins a task; nothing else is sent."""
        said = {"session": self._session, "attempt": task.attempt, "output": task.prompt}
        await connection.call("finish", said, TaskCallResponse, task.work_id)


async def run(settings: Settings) -> None:
    """Run until the benchmark ends."""
    tls = ssl.create_default_context(cafile=settings.authority)
    place = AgentEndpoint(settings.url, settings.agent_id, settings.token, tls)
    echo = Echo()
    async with connect(place, echo.pushed) as connection:
        working = asyncio.create_task(echo.work(connection, settings.parallel))
        waiting = asyncio.create_task(until_abandoned())
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if working.done():
            working.result()
        working.cancel()
        await asyncio.wait({working})


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(Settings(**json.loads(sys.argv[1]))))
