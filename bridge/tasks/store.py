"""Tasks in the database, and a cache of them.

A cached task may be out of date. A step that was decided on it is then not stored, and is decided again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import orjson

from bridge.agents.address import AgentAddress, is_unicode
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.messages import Due
from bridge.tasks.queue_settings import Load
from bridge.tasks.request import Origin, TaskKey, TaskRequest, encoded
from bridge.tasks.task import State, Task
from federation.caches import WeightedCache
from storage.agents import tasks
from storage.agents.tasks import StepRow, TaskRow
from storage.database import Connection, Database
from storage.rooms.stream import ReaderPosition

CACHE_BYTES: Final = 64 << 20
"""Size of the cache in bytes."""
OVERHEAD: Final = 2_000
PAGE_SIZE: Final = 100
"""Tasks that are loaded together. Each may have a quarter of a megabyte."""

_SORTED_DUE: Final[Mapping[frozenset[Due], Sequence[str]]] = {
    frozenset(due): sorted(one.value for one in due)
    for number in range(len(Due) + 1)
    for due in combinations(Due, number)
}
"""The database value for each set of due effects."""


class TaskStore:
    def __init__(self, database: Database, cache_bytes: int = CACHE_BYTES) -> None:
        self._database = database
        self._cache: WeightedCache[TaskKey, Task] = WeightedCache(cache_bytes, _weight)

    async def live_tasks_of(self, addresses: Sequence[AgentAddress]) -> AsyncIterator[Task]:
        """All tasks of these agents that have not ended."""
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await tasks.list_live_of_agents(connection, map(str, addresses), after, PAGE_SIZE)
            if not rows:
                return
            for row in rows:
                yield self.read(row)
            after = rows[-1].id

    def cached(self, key: TaskKey) -> Task | None:
        """The task as this process stored or loaded it last. It may be out of date."""
        return self._cache.get(key)

    async def load(self, key: TaskKey) -> Task | None:
        """Load the current task."""
        if not (storable(key.node_id) and storable(key.request_id)):
            return None  # no such text can be in the database
        async with self._database.transaction(readonly=True) as connection:
            return await self.fetch(connection, key)

    async def fetch(self, connection: Connection, key: TaskKey) -> Task | None:
        """Load the current task in the caller's transaction."""
        row = await tasks.fetch_task(connection, *key)
        return None if row is None else self.read(row)

    def read(self, row: TaskRow) -> Task:
        task = task_of(row)
        self._cache_newer(task)
        return task

    async def accept(
        self,
        connection: Connection,
        task: Task,
        process: int,
        room: tasks.AgentCapacity | None = None,
        position: ReaderPosition | None = None,
    ) -> tuple[Task | None, Load | None]:
        """Store a new task. Return it with its id, and the load of its agent, as `tasks.accept_task` does."""
        number, load = await tasks.accept_task(connection, row_of(task, process), room, position)
        stored = None if number is None else task.replace(id=number)
        return stored, None if load is None else Load(*load)

    async def store_step(self, connection: Connection, after: Task, process: int) -> bool:
        """Store a step. False if the task has changed since it was loaded."""
        self._cache.pop(after.key, None)
        return await tasks.step_task(connection, step_of(after, process))

    def cache(self, task: Task) -> None:
        """Cache a task after its step was committed."""
        self._cache_newer(task)

    def mark_done(self, task: Task, due: Due) -> None:
        """Remove a finished effect from the cached task, so that later steps do not repeat it. The database
        is updated with the next batch."""
        if task.finished_at is None:
            known = self._cache.get(task.request.key)
            if known is not None and known.version == task.version:
                self.cache(known.replace(due=known.due - {due}))

    def evict(self, key: TaskKey) -> None:
        """Remove a task that another process may have changed."""
        self._cache.pop(key, None)

    def _cache_newer(self, task: Task) -> None:
        key = task.request.key
        known = self._cache.get(key)
        if known is None or known.version <= task.version:
            self._cache[key] = task


def _weight(task: Task) -> int:
    request = task.request
    metadata = encoded(request.metadata) if request.metadata else None
    texts = (request.prompt, request.context, request.system_prompt or "", metadata or b"")
    return OVERHEAD + sum(map(len, texts)) + (0 if task.answer is None else len(task.answer.output))


def row_of(task: Task, process: int | None) -> TaskRow:
    """`process` is the number of the process that performs what is due; it is not stored with a task that has
    nothing left to do."""
    request, answer = task.request, task.answer
    return TaskRow(
        task.id,
        request.key.node_id,
        request.key.request_id,
        request.task_id,
        str(request.from_address),
        str(request.to_address),
        task.elsewhere,
        _bytes(request.content()),
        request.origin.protocol,
        _bytes(request.origin.reference),
        task.asked,
        task.state.value,
        task.version,
        task.received_at,
        task.deadline,
        task.started_at,
        task.finished_at,
        task.runner,
        task.lease_until,
        None if answer is None else answer.error_code,
        None if answer is None else _answer_bytes(answer),
        _SORTED_DUE[task.due],
        process if task.due or task.finished_at is None else None,
    )


def step_of(task: Task, process: int | None) -> StepRow:
    """The columns that a step can change."""
    origin, answer = task.request.origin, task.answer
    return StepRow(
        task.id,
        task.version - 1,
        origin.protocol,
        _bytes(origin.reference),
        task.asked,
        task.state.value,
        task.started_at,
        task.finished_at,
        task.runner,
        task.lease_until,
        None if answer is None else answer.error_code,
        None if answer is None else _answer_bytes(answer),
        _SORTED_DUE[task.due],
        process if task.due or task.finished_at is None else None,
    )


def task_of(row: TaskRow) -> Task:
    content = orjson.loads(row.content)
    return Task(
        request=TaskRequest(
            key=TaskKey(row.requester_node, row.request_id),
            task_id=row.task_id,
            from_address=_address(row.from_agent),
            to_address=_address(row.to_agent),
            prompt=content["prompt"],
            origin=Origin(row.origin, orjson.loads(row.reference)),
            context=content["context"],
            system_prompt=content["system_prompt"],
            model=content["model"],
            metadata=content["metadata"],
        ),
        received_at=row.received_at,
        deadline=row.deadline,
        elsewhere=row.elsewhere,
        state=State(row.state),
        version=row.version,
        asked=row.asked,
        started_at=row.started_at,
        finished_at=row.finished_at,
        runner=row.runner,
        lease_until=row.lease_until,
        answer=None if row.answer is None else _answer_of(row.answer, row.error_code),
        due=frozenset(map(Due, row.due)),
        id=row.id,
    )


def storable(text: str) -> bool:
    """Whether a text column of the database can contain the text."""
    return "\0" not in text and is_unicode(text)


def same_work(one: TaskRequest, other: TaskRequest) -> bool:
    """Whether a repeated request is for the same work. Its origin may differ."""
    return (one.from_address, one.to_address, one.task_id) == (
        other.from_address,
        other.to_address,
        other.task_id,
    ) and encoded(one.content()) == encoded(other.content())


def _address(text: str) -> AgentAddress:
    address = AgentAddress.parse(text)
    assert isinstance(address, AgentAddress), "only addresses are stored"
    return address


def _bytes(value: Any) -> bytes:
    as_json = encoded(value)
    assert as_json is not None, "`check_request` has checked it"
    return as_json


def _answer_bytes(answer: Answer) -> bytes:
    return _bytes(
        {"success": answer.success, "output": answer.output, "exit_code": answer.exit_code, "metadata": answer.metadata}
    )


def _answer_of(content: bytes, error_code: str | None) -> Answer:
    code = None if error_code is None else ErrorCode(error_code)
    return Answer(**orjson.loads(content), error_code=code)
