"""Tasks for tests of agents."""

from typing import Any

from bridge.agents.work import TaskAssignment


def task(**said: Any) -> TaskAssignment:
    return TaskAssignment(
        **{
            "work_id": "1",
            "attempt": 1,
            "task_id": "task-1",
            "request_id": "request-1",
            "from_agent": "boss@office.local",
            "to_agent": "worker-1@kitchen.local",
            "prompt": "Do it.",
            "deadline_ms": 1_800_000_000_000,
            **said,
        }
    )
