"""A task as an agent gets it."""

from bridge.agents.work import TaskAssignment, assignment_of
from bridge.tasks.task import Task
from tests.support.tasks import request


def test_the_fields_of_an_assignment() -> None:
    """Its id is not chosen by the requester."""
    asked = request(context="In the kitchen", system_prompt="Be kind", model="m", metadata={"a": 1}, prompt="Do it")
    assert assignment_of(Task(asked, 1, 1000, id=17), 3) == TaskAssignment(
        work_id="17",
        attempt=3,
        task_id="task-req-1",
        request_id="req-1",
        from_agent="coordinator@living",
        to_agent="worker@here",
        prompt="Do it",
        deadline_ms=1000,
        context="In the kitchen",
        system_prompt="Be kind",
        model="m",
        metadata={"a": 1},
    )
