"""What agents say at the desk of their tasks. While Postgres is away an answer waits: it has cost
something."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bridge.agents.work import WorkOutcome
from bridge.tasks.errors import TaskError
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from storage.connect import ConnectionLost

RETRY: Final = 1.0
"""Seconds."""


def progress_content(message: str) -> Mapping[str, Any]:
    """A line of text, as a report on the way."""
    return {"message": message}


async def begin(desk: TaskService, task: Task) -> bool:
    """Whether it may be run by this process. While nobody can say, it waits."""
    while True:
        try:
            return await desk.begin(task.key, by=task.request.to_address) is not None
        except ConnectionLost:
            await asyncio.sleep(RETRY)


async def report(desk: TaskService, task: Task, outcome: WorkOutcome) -> None:
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
