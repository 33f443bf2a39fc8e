"""By what other processes know that this one is alive and works on its tasks: a number, and a lease on it.

The lease ends with the process's session, however that ends. Then the tasks under the number are anybody's.

What processes notify each other of: tasks of which something is due that only another process can do, and
agents for which tasks have come to wait.
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
        """Under which this process takes its steps. If the session was lost a moment ago another process may
        take them over: nothing is run twice by that."""
        assert self._number is not None, "it was started"
        return self._number

    async def start(self) -> None:
        await self._take()
        self._background.supervise("lease of tasks", self._keep)

    async def close(self) -> None:
        """Whatever is left is anybody's now."""
        if self._lease is not None:
            await self._lease.release()

    async def each_orphan(self, take_over: TakeOver) -> None:
        """Take over the tasks of every desk that is no more. Nobody else does meanwhile."""
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
        """The same number again, if nobody has taken over meanwhile: what runs here goes on under it."""
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
    """None for what is none."""
    try:
        said: Any = decode(text.encode())
    except (NotJson, UnicodeEncodeError):
        return None
    match said:
        case [str(node_id), str(request_id)]:
            return TaskKey(node_id, request_id)
        case [str(address)]:
            parsed = AgentAddress.parse(address)
            return parsed if isinstance(parsed, AgentAddress) else None
    return None
