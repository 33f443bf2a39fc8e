"""Reports to the task service while Postgres is unavailable."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.local import reporting
from bridge.agents.local.reporting import begin, report
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import TaskKey
from bridge.tasks.task import Task
from storage.connect import ConnectionLost, DatabaseAddress
from tests.support.agents import address
from tests.support.tasks import request

TASK = Task(request(), 0, 1, id=1)
WORKER = address("worker@here")


class UnavailableTaskService:
    """Loses its connection at the first calls."""

    def __init__(self) -> None:
        self.away = 2
        self.heard: list[tuple[object, ...]] = []

    async def _hear(self, *said: object) -> Task | None:
        if self.away:
            self.away -= 1
            raise ConnectionLost(DatabaseAddress.from_url("postgresql://nowhere/none"))
        self.heard.append(said)
        return TASK

    def begin(
        self, key: TaskKey, *, runner: str | None = None, lease_until: int | None = None, by: AgentAddress | None = None
    ) -> Awaitable[Task | None]:
        return self._hear("begin", key, by)

    def finish(self, key: TaskKey, answer: Answer, *, by: AgentAddress | None = None) -> Awaitable[Task | None]:
        return self._hear(answer, key, by)

    def fail(self, key: TaskKey, error: TaskError, *, by: AgentAddress | None = None) -> Awaitable[Task | None]:
        return self._hear(error, key, by)

    def renew(self, key: TaskKey, runner: str, lease_until: int) -> Awaitable[Task | None]:
        return self._hear()

    def progress(
        self, key: TaskKey, content: Mapping[str, Any], *, by: AgentAddress | None = None
    ) -> Awaitable[Task | None]:
        return self._hear()

    async def attached(self, address: AgentAddress) -> Sequence[Task]:
        return []


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "RETRY_DELAY", 0.0)


async def test_an_answer_is_retried_until_it_is_stored() -> None:
    """In the name of its agent."""
    answer, error = Answer(True, "done", 0), TaskError(ErrorCode.TIMEOUT, "Too late.")
    for outcome in (answer, error):
        tasks = UnavailableTaskService()
        await report(tasks, TASK, outcome)
        assert tasks.heard == [(outcome, TASK.key, WORKER)]


async def test_a_start_is_retried() -> None:
    """A task runs only after its start is stored."""
    tasks = UnavailableTaskService()
    assert await begin(tasks, TASK)
    assert tasks.heard == [("begin", TASK.key, WORKER)]
