"""Searching tasks."""

import pytest

from storage.agents import tasks
from storage.agents.tasks import TaskSearch, search_tasks
from storage.database import Database
from tests.storage.agents.test_tasks import TASK


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (TaskSearch(), ["c", "b", "a"]),
        (TaskSearch(agent="worker@here"), ["b", "a"]),
        (TaskSearch(agent="worker"), ["b", "a"]),
        (TaskSearch(agent="work"), []),
        (TaskSearch(requester="coordinator@living"), ["b", "a"]),
        (TaskSearch(requester="operator"), ["c"]),
        (TaskSearch(requester="living"), ["b", "a"]),
        (TaskSearch(requester="cis"), ["b", "a"]),
        (TaskSearch(states=["accepted"]), ["c", "a"]),
        (TaskSearch(states=["done", "failed"], agent="worker@here"), ["b"]),
    ],
)
async def test_tasks_are_found(database: Database, wanted: TaskSearch, found: list[str]) -> None:
    """By target, requester and state, newest first."""
    done = {"state": "done", "finished_at": 9, "answer": b"{}"}
    rows = [
        TASK._replace(request_id="a"),
        TASK._replace(request_id="b", **done),
        TASK._replace(
            request_id="c",
            requester_node="here",
            from_agent="operator@here",
            to_agent="worker-2@here",
            origin="operator",
        ),
    ]
    async with database.transaction() as connection:
        for row in rows:
            await tasks.accept_task(connection, row)
        lines = await search_tasks(connection, wanted, 10)
        assert [line.request_id for line in lines] == found
        assert await search_tasks(connection, wanted, 1) == lines[:1]
        if lines:
            before = TaskSearch(wanted.agent, wanted.requester, wanted.states, lines[0].id)
            assert await search_tasks(connection, before, 10) == lines[1:]
