"""Reports of running tasks to the task service. They are retried while Postgres is unavailable, because
repeating the work would cost more."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from bridge.agents.work import WorkOutcome
from bridge.tasks.errors import TaskError
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from storage.connect import ConnectionLost

RETRY_DELAY: Final = 1.0
"""Seconds."""


def progress_content(message: str) -> Mapping[str, Any]:
    """A line of text as the content of a progress message."""
    return {"message": message}


async def begin(tasks: TaskService, task: Task) -> bool:
    """Record that the task is running. False if this process must not run it."""
    while True:
        try:
            return await tasks.begin(task.key, by=task.request.to_address) is not None
        except ConnectionLost:
            await asyncio.sleep(RETRY_DELAY)


async def report(tasks: TaskService, task: Task, outcome: WorkOutcome) -> None:
    """Report the outcome. Returns when it is stored, or when the task has already ended."""
    while True:
        try:
            by = task.request.to_address
            if isinstance(outcome, TaskError):
                await tasks.fail(task.key, outcome, by=by)
            else:
                await tasks.finish(task.key, outcome, by=by)
            return
        except ConnectionLost:
            await asyncio.sleep(RETRY_DELAY)
