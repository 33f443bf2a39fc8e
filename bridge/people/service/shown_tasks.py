"""Tasks as people see them, in the database.

What has just been begun is known without looking: most tasks are asked for, answered and done with within a
second, and by one process.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.people.thread import Shown, Sign
from bridge.service.task_store import Keep
from bridge.task_request import TaskKey
from federation.bounded_cache import BoundedCache
from storage import people
from storage.database import Connection, Database
from storage.people import EndedRow, ShownRow
from storage.tasks import TaskRow

MOST_OF_THREAD = 50
"""Tasks of one thread that are looked at, the newest."""
NOT_YET: Final = 0
"""The number of a task that has none yet."""
BELIEVED: Final = 1.0
"""Seconds for which what this process has begun to show is taken to be as this process has left it. Another
one may withdraw it meanwhile."""
MOST_NEW: Final = 1_000


@dataclass(frozen=True, slots=True)
class Ended:
    """One that no person has asked for, and that was shown from its beginning to its end at once."""

    task: int
    key: TaskKey
    agent: AgentAddress
    room_id: str
    root: str
    sign: Sign
    answer: str
    made_at: int


def row_of(shown: Shown) -> ShownRow:
    return ShownRow(
        task=shown.task,
        requester_node=shown.key.node_id,
        request_id=shown.key.request_id,
        agent=str(shown.agent),
        room_id=shown.room_id,
        root=shown.root,
        request=shown.request,
        asked_by=shown.asked_by,
        is_threaded=shown.is_threaded,
        sign=None if shown.sign is None else shown.sign.value,
        sign_event=shown.sign_event,
        progress=shown.progress,
        answer=shown.answer,
        withdrawn_by=shown.withdrawn_by,
        made_at=shown.made_at,
    )


def shown_of(row: ShownRow) -> Shown:
    agent = AgentAddress.parse(row.agent)
    assert isinstance(agent, AgentAddress), "it was one when it was written"
    return Shown(
        task=row.task,
        key=TaskKey(row.requester_node, row.request_id),
        agent=agent,
        room_id=row.room_id,
        root=row.root,
        request=row.request,
        asked_by=row.asked_by,
        is_threaded=row.is_threaded,
        made_at=row.made_at,
        sign=None if row.sign is None else Sign(row.sign),
        sign_event=row.sign_event,
        progress=row.progress,
        answer=row.answer,
        withdrawn_by=row.withdrawn_by,
    )


class ShownTasks:
    def __init__(self, database: Database, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._monotonic = monotonic
        # What has just been begun here, each with when.
        self._new: BoundedCache[int, tuple[float, Shown]] = BoundedCache(MOST_NEW)

    def with_thread(self, shown: Shown) -> Keep:
        """Writes a task that a person has asked for together with this."""

        async def keep(connection: Connection, row: TaskRow, at_once: int | None) -> int | None:
            task = await people.accept_asked(connection, row, at_once, row_of(shown))
            if task is not None:
                self._new.put(task, (self._monotonic(), replace(shown, task=task)))
            return task

        return keep

    async def insert(self, connection: Connection, shown: Shown) -> None:
        """In the transaction of the caller."""
        await people.insert_shown(connection, row_of(shown))

    async def fetch(self, task: int) -> Shown | None:
        new = self._new.get(task)
        if new is not None:
            begun, shown = new
            if self._monotonic() - begun < BELIEVED:
                return shown
            self._new.forget(task)
        row = await self._database.look(lambda connection: people.fetch_shown(connection, task))
        return None if row is None else shown_of(row)

    async def find(self, room_id: str, event_id: str) -> list[Shown]:
        """Those to which a message belongs, the newest first."""
        async with self._database.transaction(readonly=True) as connection:
            rows = await people.find_shown(connection, room_id, event_id, MOST_OF_THREAD)
        return [shown_of(row) for row in rows]

    async def add(self, shown: Shown) -> Shown:
        """One of which no task hangs; what is known already stays."""
        async with self._database.statements() as connection:
            return shown_of(await people.keep_shown(connection, row_of(shown)))

    async def known(self, tasks: Collection[int]) -> set[int]:
        """Of these, those that have been begun to be shown."""
        return await self._database.look(lambda connection: people.find_known(connection, tasks))

    async def add_ended(self, ended: Iterable[Ended]) -> set[int]:
        """Gives those of which nothing was known; what is known already stays."""
        rows = [
            EndedRow(
                task=one.task,
                requester_node=one.key.node_id,
                request_id=one.key.request_id,
                agent=str(one.agent),
                room_id=one.room_id,
                root=one.root,
                sign=one.sign.value,
                answer=one.answer,
                made_at=one.made_at,
            )
            for one in ended
        ]
        async with self._database.statements() as connection:
            return await people.insert_ended(connection, rows)

    async def set_sign(self, task: int, sign: Sign | None, event_id: str | None) -> None:
        async with self._database.statements() as connection:
            await people.set_sign(connection, task, None if sign is None else sign.value, event_id)
        self._is_now(task, sign=sign, sign_event=event_id)

    async def set_progress(self, task: int, event_id: str) -> None:
        async with self._database.statements() as connection:
            await people.set_progress(connection, task, event_id)
        self._is_now(task, progress=event_id)

    async def set_answer(self, task: int, event_id: str) -> None:
        async with self._database.statements() as connection:
            await people.set_answer(connection, task, event_id)
        self._is_now(task, answer=event_id)

    async def withdraw(self, task: int, event_id: str) -> bool:
        """Whether it is this event by which it is withdrawn."""
        try:
            async with self._database.transaction() as connection:
                return await people.withdraw(connection, task, event_id) == event_id
        finally:
            self._new.forget(task)

    async def set_cancelled(self, task: int, event_id: str) -> None:
        async with self._database.statements() as connection:
            await people.set_cancelled(connection, task, event_id)

    async def is_cancelled_by(self, task: int, event_id: str) -> bool:
        """Whether this is the event that has taken it back last."""
        return await self._database.look(
            lambda connection: people.is_cancelled_by(connection, task, event_id)
        )

    async def prune(self, made_before: int, limit: int) -> int:
        async with self._database.transaction() as connection:
            return await people.prune_shown(connection, made_before, limit)

    def _is_now(self, task: int, **changed: Any) -> None:
        new = self._new.get(task)
        if new is not None:
            begun, shown = new
            self._new.put(task, (begun, replace(shown, **changed)))
