"""What agents say at the desk of their tasks. While Postgres is away an answer waits: it has cost
something."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, Protocol

from bridge.address import AgentAddress
from bridge.agent_work import WorkOutcome
from bridge.task import Task
from bridge.task_answer import Answer
from bridge.task_error import TaskError
from bridge.task_request import TaskKey
from storage.connecting import ConnectionLost

RETRY: Final = 1.0
"""Seconds."""


class Desk(Protocol):
    """As much of `bridge.service.task_desk.TaskDesk` as agents need."""

    def begin(
        self,
        key: TaskKey,
        *,
        runner: str | None = None,
        lease_until: int | None = None,
        by: AgentAddress | None = None,
    ) -> Awaitable[Task | None]: ...

    def renew(self, key: TaskKey, runner: str, lease_until: int) -> Awaitable[Task | None]: ...

    def progress(
        self, key: TaskKey, content: Mapping[str, Any], *, by: AgentAddress | None = None
    ) -> Awaitable[Task | None]: ...

    def finish(
        self, key: TaskKey, answer: Answer, *, runner: str | None = None, by: AgentAddress | None = None
    ) -> Awaitable[Task | None]: ...

    def fail(
        self, key: TaskKey, error: TaskError, *, by: AgentAddress | None = None
    ) -> Awaitable[Task | None]: ...

    def attached(self, address: AgentAddress) -> Awaitable[Sequence[Task]]: ...


def progress_content(message: str) -> Mapping[str, Any]:
    """A line of text, as a report on the way."""
    return {"message": message}


async def begin(desk: Desk, task: Task) -> bool:
    """Whether it may be run by this process. While nobody can say, it waits."""
    while True:
        try:
            return await desk.begin(task.key, by=task.request.to_address) is not None
        except ConnectionLost:
            await asyncio.sleep(RETRY)


async def report(desk: Desk, task: Task, outcome: WorkOutcome) -> None:
    """Returns when it is stored, or when nobody wants it any more."""
    while True:
        try:
            by = task.request.to_address
            if isinstance(outcome, TaskError):
                await desk.fail(task.key, outcome, by=by)
            else:
                await desk.finish(task.key, outcome, by=by)
            return
        except ConnectionLost:
            await asyncio.sleep(RETRY)
