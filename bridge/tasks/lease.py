"""The lease by which other processes know that this process still works on its tasks.

Each process has a number, and a lease on it that ends with the process's Postgres session. After that another
process may take over the tasks under that number.

Processes also notify each other: of tasks with an effect that only another process can perform, and of agents
for which a task was queued.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.tasks.request import TaskKey
from federation.matrix.canonical_json import NotJson, decode
from storage.agents import tasks
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.session import Lease

TakeOver = Callable[[int], Awaitable[None]]


class TaskLease:
    def __init__(self, database: Database, background: BackgroundTasks) -> None:
        self._database = database
        self._background = background
        self._number: int | None = None
        self._lease: Lease | None = None

    @property
    def number(self) -> int:
        """The number that is stored with the steps of this process. If the session has just been lost,
        another process may take over the tasks. No task runs twice because of that."""
        assert self._number is not None, "it was started"
        return self._number

    async def start(self) -> None:
        await self._take()
        self._background.supervise("lease of tasks", self._keep)

    async def close(self) -> None:
        """Release the lease: other processes may take over the remaining tasks."""
        if self._lease is not None:
            await self._lease.release()

    async def take_over_orphans(self, take_over: TakeOver) -> None:
        """Call `take_over` for the number of every process that has ended, while holding its lease."""
        for number in await self._database.read(tasks.list_processes):
            lease = None if number == self._number else await self._database.session.try_lease(_name(number))
            if lease is not None:
                async with lease:
                    await take_over(number)

    async def _keep(self) -> None:
        assert self._lease is not None, "it was started"
        await self._lease.lost()
        await self._take()

    async def _take(self) -> None:
        """Take the lease of the same number if no process has taken over meanwhile, otherwise of a new
        one."""
        session = self._database.session
        lease = None if self._number is None else await session.try_lease(_name(self._number))
        if lease is None:
            self._number = await self._database.read(tasks.next_process_number)
            lease = await session.try_lease(_name(self._number))
            assert lease is not None, "the number is new"
        self._lease = lease


def _name(number: int) -> str:
    return f"tasks of {number}"


TOPIC: Final = "tasks"


def notice_of(about: TaskKey | AgentAddress) -> str:
    return json.dumps(list(about) if isinstance(about, TaskKey) else [str(about)])


def read_notice(text: str) -> TaskKey | AgentAddress | None:
    """Parse a notification; None if it is invalid."""
    try:
        content: Any = decode(text.encode())
    except (NotJson, UnicodeEncodeError):
        return None
    match content:
        case [str(node_id), str(request_id)]:
            return TaskKey(node_id, request_id)
        case [str(address)]:
            parsed = AgentAddress.parse(address)
            return parsed if isinstance(parsed, AgentAddress) else None
    return None
