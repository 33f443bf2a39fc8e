"""Tasks as the database has them, and as this process remembers them.

What is remembered may be out of date; a step that was decided upon it is then not taken, and is decided
again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

import orjson

from bridge.address import AgentAddress, is_unicode
from bridge.task import State, Task
from bridge.task_answer import Answer
from bridge.task_error import ErrorCode
from bridge.task_messages import Due
from bridge.task_request import Origin, TaskKey, TaskRequest, encoded
from federation.weighted_cache import WeightedCache
from storage import tasks
from storage.consumers import Place
from storage.database import Connection, Database
from storage.tasks import StepRow, TaskRow

Keep: TypeAlias = Callable[[Connection, TaskRow, int | None], Awaitable[int | None]]
"""Writes a task that its agent may have now, and something that belongs to it, by one statement, as
`tasks.accept_task` does: given is how many tasks the agent takes at once. None: nothing was written."""
REMEMBERED: Final = 64 << 20
"""Bytes, of what the tasks hold."""
OVERHEAD: Final = 2_000

_WORDS: Final[Mapping[frozenset[Due], Sequence[str]]] = {
    frozenset(due): sorted(one.value for one in due)
    for number in range(len(Due) + 1)
    for due in combinations(Due, number)
}
"""What may be due, as it is written."""


class TaskStore:
    def __init__(self, database: Database, remembered: int = REMEMBERED) -> None:
        self._database = database
        self._cache: WeightedCache[TaskKey, Task] = WeightedCache(remembered)
        # The rows of the task that is written next, perhaps, and the desk that they name.
        self._new_row: tuple[Task, int, TaskRow] | None = None
        self._step_row: tuple[Task, int, StepRow] | None = None

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
        self._remember(task, len(row.content) + len(row.answer or b""))
        return task

    async def insert(self, connection: Connection, task: Task, desk: int) -> Task | None:
        """With its id; None when its request was made before."""
        number = await tasks.insert_task(connection, row_of(task, desk))
        return None if number is None else task.changed(id=number)

    async def accept(
        self, connection: Connection, task: Task, desk: int, at_once: int | None, keep: Keep
    ) -> Task | None:
        """The same by one statement, if its agent has room for it, with what else belongs to it. None:
        nothing was written."""
        made, self._new_row = self._new_row, None
        is_it = made is not None and made[0] is task and made[1] == desk
        row = made[2] if made is not None and is_it else row_of(task, desk)
        number = await keep(connection, row, at_once)
        return None if number is None else task.changed(id=number)

    async def step(self, connection: Connection, after: Task, desk: int) -> bool:
        """Whether this is the next step of the task. If not, what was remembered was out of date."""
        self._cache.forget(after.key)
        return await tasks.update_task(connection, step_of(after, desk))

    async def step_and_advance(
        self, connection: Connection, after: Task, desk: int, place: Place
    ) -> tuple[bool, bool]:
        """The same by one statement with the place of the reader that read of it, and whether that is its
        place now."""
        self._cache.forget(after.key)
        made, self._step_row = self._step_row, None
        is_it = made is not None and made[0] is after and made[1] == desk
        row = made[2] if made is not None and is_it else step_of(after, desk)
        return await tasks.update_task_and_advance(connection, row, place)

    def foresee_new(self, task: Task, desk: int) -> None:
        """It is accepted next, perhaps: how it is written is made already."""
        self._new_row = task, desk, row_of(task, desk)

    def foresee_step(self, after: Task, desk: int) -> None:
        """The same of a step that is taken with the place of a reader."""
        self._step_row = after, desk, step_of(after, desk)

    def committed(self, task: Task) -> None:
        """The transaction of the step has ended well."""
        output = 0 if task.answer is None else len(task.answer.output)
        self._remember(task, len(task.request.prompt) + len(task.request.context) + output)

    def done(self, task: Task, due: Due) -> None:
        """Steps that follow need not have it done again, if any do. The database is told a moment later."""
        if task.finished_at is None:
            known = self._cache.get(task.request.key)
            if known is not None and known.version == task.version:
                self.committed(known.changed(due=known.due - {due}))

    def forget(self, key: TaskKey) -> None:
        """Another process has taken a step, or may have."""
        self._cache.forget(key)

    def _remember(self, task: Task, weight: int) -> None:
        key = task.request.key
        known = self._cache.get(key)
        if known is None or known.version <= task.version:
            self._cache.put(key, task, weight + OVERHEAD)


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
