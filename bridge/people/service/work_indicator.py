"""Shows that an agent works on a person's request: its user has read the request and types until the task ends.

Tasks that end at once are not indicated: their answer says enough. After a kill of this process the user types
until the homeserver's timeout.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from bridge.matrix.backend import TYPING_LASTS_MS, MatrixBackend
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

DELAY: Final = 1.0
"""Seconds that a task runs before it is indicated."""
REFRESH: Final = 0.8 * TYPING_LASTS_MS / 1_000
MAX_INDICATED: Final = 1_000
"""Maximum number of tasks that are indicated at the same time."""


class WorkIndicator:
    """`is_over` tells whether a task has its answer. Another process may have sent it."""

    def __init__(self, backend: MatrixBackend, is_over: Callable[[int], Awaitable[bool]]) -> None:
        self._backend = backend
        self._is_over = is_over
        self._background = BackgroundTasks()
        self._workers: dict[int, asyncio.Task[None]] = {}
        # The tasks on which a user works in a room. It stops typing with the last one.
        self._typing: dict[tuple[str, str], set[int]] = {}

    async def close(self) -> None:
        await self._background.close()

    def begun(self, task_id: int, room_id: str, user: str, request: str) -> None:
        """`request` is the person's message. Repeating it changes nothing."""
        if task_id not in self._workers and len(self._workers) < MAX_INDICATED:
            run = self._run(task_id, room_id, user, request)
            self._workers[task_id] = self._background.spawn("indicate work", run)

    def ended(self, task_id: int) -> None:
        worker = self._workers.pop(task_id, None)
        if worker is not None:
            worker.cancel()

    async def _run(self, task_id: int, room_id: str, user: str, request: str) -> None:
        await asyncio.sleep(DELAY)
        working = self._typing.setdefault((room_id, user), set())
        working.add(task_id)
        try:
            # Nobody depends on it, so a refusal or an unavailable homeserver is no reason to try again.
            with suppress(MatrixError, ConnectionLost):
                await self._backend.mark_read(room_id, user, request)
                while not await self._is_over(task_id):
                    await self._backend.set_typing(room_id, user, typing=True)
                    await asyncio.sleep(REFRESH)
        finally:
            self._workers.pop(task_id, None)
            working.discard(task_id)
            if not working:
                self._typing.pop((room_id, user), None)
                self._background.spawn("stop typing", self._stop(room_id, user))

    async def _stop(self, room_id: str, user: str) -> None:
        with suppress(MatrixError, ConnectionLost):
            await self._backend.set_typing(room_id, user, typing=False)
