"""Tasks as the database has them, and as this process remembers them.

What is remembered may be out of date; a step that was decided upon it is then not taken, and is decided
again.
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

REMEMBERED: Final = 64 << 20
"""Bytes, of what the tasks hold."""
OVERHEAD: Final = 2_000
LOADED_AT_ONCE: Final = 100
"""Tasks that are loaded together: each may hold a quarter of a megabyte."""

_WORDS: Final[Mapping[frozenset[Due], Sequence[str]]] = {
    frozenset(due): sorted(one.value for one in due)
    for number in range(len(Due) + 1)
    for due in combinations(Due, number)
}
"""What may be due, as it is written."""


class TaskStore:
    def __init__(self, database: Database, remembered: int = REMEMBERED) -> None:
        self._database = database
        self._cache: WeightedCache[TaskKey, Task] = WeightedCache(remembered, _weight)

    async def live_of(self, addresses: Sequence[AgentAddress]) -> AsyncIterator[Task]:
        """Tasks of these agents that have not ended."""
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                rows = await tasks.list_live_of_agents(connection, map(str, addresses), after, LOADED_AT_ONCE)
            if not rows:
                return
            for row in rows:
                yield self.read(row)
            after = rows[-1].id

    def remembered(self, key: TaskKey) -> Task | None:
        """As it was when this process saw it last."""
        return self._cache.get(key)

    async def load(self, key: TaskKey) -> Task | None:
        """As it is now."""
        if not (storable(key.node_id) and storable(key.request_id)):
            return None  # whoever names it has it from elsewhere
        async with self._database.transaction(readonly=True) as connection:
            return await self.fetch(connection, key)

    async def fetch(self, connection: Connection, key: TaskKey) -> Task | None:
        """The same, in a transaction of the caller."""
        row = await tasks.fetch_task(connection, *key)
        return None if row is None else self.read(row)

    def read(self, row: TaskRow) -> Task:
        task = task_of(row)
        self._remember(task)
        return task

    async def accept(
        self,
        connection: Connection,
        task: Task,
        desk: int,
        room: tasks.AgentCapacity | None = None,
        place: ReaderPosition | None = None,
    ) -> tuple[Task | None, Load | None]:
        """The task with its id, and the load of its agent, as `tasks.accept_task` says."""
        number, load = await tasks.accept_task(connection, row_of(task, desk), room, place)
        stored = None if number is None else task.changed(id=number)
        return stored, None if load is None else Load(*load)

    async def step(self, connection: Connection, after: Task, desk: int) -> bool:
        """Whether this is the next step of the task. If not, what was remembered was out of date."""
        self._cache.pop(after.key, None)
        return await tasks.step_task(connection, step_of(after, desk))

    def committed(self, task: Task) -> None:
        """The transaction of the step has ended well."""
        self._remember(task)

    def done(self, task: Task, due: Due) -> None:
        """Steps that follow need not have it done again, if any do. The database is told a moment later."""
        if task.finished_at is None:
            known = self._cache.get(task.request.key)
            if known is not None and known.version == task.version:
                self.committed(known.changed(due=known.due - {due}))

    def forget(self, key: TaskKey) -> None:
        """Another process has taken a step, or may have."""
        self._cache.pop(key, None)

    def _remember(self, task: Task) -> None:
        key = task.request.key
        known = self._cache.get(key)
        if known is None or known.version <= task.version:
            self._cache[key] = task


def _weight(task: Task) -> int:
    request = task.request
    metadata = encoded(request.metadata) if request.metadata else None
    texts = (request.prompt, request.context, request.system_prompt or "", metadata or b"")
    return OVERHEAD + sum(map(len, texts)) + (0 if task.answer is None else len(task.answer.output))


def row_of(task: Task, desk: int | None) -> TaskRow:
    """`desk` is who works on what is left to do, if anything is."""
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
        _WORDS[task.due],
        desk if task.due or task.finished_at is None else None,
    )


def step_of(task: Task, desk: int | None) -> StepRow:
    """What of it may be another than before its newest step."""
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
        _WORDS[task.due],
        desk if task.due or task.finished_at is None else None,
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
    """Whether a column of text can hold it."""
    return "\0" not in text and is_unicode(text)


def same_work(one: TaskRequest, other: TaskRequest) -> bool:
    """Whether a repeated request asks for the same; where it is to be answered may differ."""
    return (one.from_address, one.to_address, one.task_id) == (
        other.from_address,
        other.to_address,
        other.task_id,
    ) and encoded(one.content()) == encoded(other.content())


def _address(text: str) -> AgentAddress:
    address = AgentAddress.parse(text)
    assert isinstance(address, AgentAddress), "it was one when it was written"
    return address


def _bytes(value: Any) -> bytes:
    as_json = encoded(value)
    assert as_json is not None, "it was looked at before it came here"
    return as_json


def _answer_bytes(answer: Answer) -> bytes:
    return _bytes(
        {
            "success": answer.success,
            "output": answer.output,
            "exit_code": answer.exit_code,
            "metadata": answer.metadata,
        }
    )


def _answer_of(content: bytes, error_code: str | None) -> Answer:
    code = None if error_code is None else ErrorCode(error_code)
    return Answer(**orjson.loads(content), error_code=code)
