"""Answers to whoever has asked for a task on the command line.

There is nobody to whom they would have to be brought: they are in the database, where `palaver task show`
finds them. Whoever waits is only woken, and looks there; so nothing is lost when nobody waits any more, or
when it was another process of the node that had the answer.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bridge.task import Task
from bridge.task_request import TaskKey

PROTOCOL: Final = "operator"
"""By which the desk knows whose tasks these are; also the id of the agent as which the operator asks."""


class OperatorReply:
    """Satisfies `bridge.task_ports.Reply`."""

    def __init__(self) -> None:
        self._waiting: dict[TaskKey, list[asyncio.Event]] = {}

    @contextmanager
    def listening(self, key: TaskKey) -> Iterator[asyncio.Event]:
        """It is set whenever there may be something new of the task."""
        woken = asyncio.Event()
        self._waiting.setdefault(key, []).append(woken)
        try:
            yield woken
        finally:
            waiting = self._waiting[key]
            waiting.remove(woken)
            if not waiting:
                del self._waiting[key]

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self._wake(task.key)

    async def answer(self, task: Task) -> None:
        self._wake(task.key)

    def _wake(self, key: TaskKey) -> None:
        for woken in self._waiting.get(key, ()):
            woken.set()
