"""What desks tell each other: tasks of which something is due that only another process can do, and for which
agents tasks have come to wait."""

import asyncio
import json
import secrets
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.task_request import TaskKey
from federation.canonical_json import NotJson, decode
from storage import tasks
from storage.connecting import ConnectionLost
from storage.database import Database

MOST_WAITING: Final = 10_000


class TaskNotices:
    """Their own notices come back to processes, and are left alone there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._name = secrets.token_hex(4)
        self._waiting: dict[TaskKey | AgentAddress, None] = {}
        self._wanted = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._worker = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    def tell(self, about: TaskKey | AgentAddress) -> None:
        """Beyond the limit it waits for the next sweep."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting[about] = None
            self._wanted.set()

    def read(self, notice: str) -> TaskKey | AgentAddress | None:
        """None for one's own, and for what is none."""
        try:
            said: Any = decode(notice.encode())
        except (NotJson, UnicodeEncodeError):
            return None
        match said:
            case [str(name), str(node_id), str(request_id)] if name != self._name:
                return TaskKey(node_id, request_id)
            case [str(name), str(text)] if name != self._name:
                address = AgentAddress.parse(text)
                return address if isinstance(address, AgentAddress) else None
        return None

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = list(self._waiting), {}
            try:
                async with self._database.transaction() as connection:
                    for about in waiting:
                        said = about if isinstance(about, TaskKey) else (str(about),)
                        await tasks.notify(connection, json.dumps([self._name, *said]))
            except ConnectionLost:
                continue  # the next sweep tells again
