"""A requester of tasks in the process of a node, which measures the time until it has the answers."""

import asyncio
import itertools
import secrets
from time import perf_counter
from typing import Any

from bridge.agents.address import AgentAddress
from bridge.control.agents.context import PROTOCOL, OperatorReply
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.service import TaskService
from bridge.tasks.task import State

PROMPT = "What does the scale say? Next reading at noon. " * 4
TIMEOUT = 60.0
"""Seconds for one task."""
FAILURES = [state for state in State if state.is_final and state is not State.DONE]


class Requester:
    """Submits tasks as the command line does. The time begins when a task is submitted to the task service,
    and ends when the reply of its protocol is called: the answer is then in the database."""

    def __init__(self, node_id: str, tasks: TaskService, replies: OperatorReply) -> None:
        self._node_id = node_id
        self._tasks = tasks
        self._replies = replies
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count()
        self._there: set[int] = set()

    async def ask(self, to: str, seconds: float, at_once: int) -> dict[str, Any]:
        """Let this many agents request tasks at the same time. Before, each requests one, because it has to
        join the other node's room."""
        target = AgentAddress.parse(to)
        assert isinstance(target, AgentAddress), "the benchmark knows its agents"
        durations: list[float] = []
        first = [await self._once(number, target) for number in range(at_once) if number not in self._there]
        self._there.update(range(at_once))
        began = perf_counter()

        async def keep_asking(asker: int) -> None:
            while perf_counter() < began + seconds:
                durations.append(await self._once(asker, target))

        async with asyncio.TaskGroup() as group:
            for asker in range(at_once):
                group.create_task(keep_asking(asker))
        took = perf_counter() - began
        failed = await self._tasks.search(agent=target, states=FAILURES, limit=1)
        assert not failed, f"a task has failed: {failed[0].answer}"
        return {"first": first, "durations": durations, "seconds": took}

    async def _once(self, asker: int, to: AgentAddress) -> float:
        number = next(self._numbers)
        key = TaskKey(self._node_id, f"bench-{self._run}-{number}")
        request = TaskRequest(
            key=key,
            task_id=key.request_id,
            from_address=AgentAddress(f"asker-{asker}", self._node_id),
            to_address=to,
            prompt=PROMPT,
            origin=Origin(PROTOCOL),
        )
        began = perf_counter()
        with self._replies.listening(key) as answered:
            submitted = await self._tasks.submit(request)
            assert submitted.refusal is None, f"the node refuses: {submitted.refusal}"
            async with asyncio.timeout(TIMEOUT):
                await answered.wait()
        return perf_counter() - began
