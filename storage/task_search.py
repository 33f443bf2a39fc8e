"""Lists of tasks, for whoever looks around."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from storage.database import Connection
from storage.statements import load

SQL = load("storage", "task_search.sql")


class TaskLine(NamedTuple):
    id: int
    requester_node: str
    request_id: str
    task_id: str
    from_agent: str
    to_agent: str
    origin: str
    state: str
    elsewhere: bool
    received_at: int
    started_at: int | None
    finished_at: int | None
    deadline: int
    error_code: str | None


@dataclass(frozen=True, slots=True)
class TaskSearch:
    """What is None is not looked at. `agent` is the one that has to do it, by its address or its id alone;
    `requester` an agent in the same way, a node, or a protocol. `before` is a task's number in the database.
    """

    agent: str | None = None
    requester: str | None = None
    states: Sequence[str] | None = None
    before: int | None = None


async def search_tasks(connection: Connection, wanted: TaskSearch, limit: int) -> list[TaskLine]:
    """The newest first."""
    rows = await connection.fetch(
        SQL.search_tasks, wanted.agent, wanted.requester, wanted.states, wanted.before, limit
    )
    return [TaskLine(*row) for row in rows]
