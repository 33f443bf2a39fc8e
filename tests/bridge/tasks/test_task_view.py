"""Tasks as JSON."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bridge.tasks.answer import failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.task import State, Task
from bridge.tasks.view import answer_json, refusal_json, state_history, task_details, task_summary
from tests.support.agents import NOW
from tests.support.tasks import request

TASK = Task(request(), NOW, NOW + 9)
ERROR = TaskError(ErrorCode.AGENT_BUSY, "It is busy.", {"current_task": "t"})


def test_all_details_can_be_encoded() -> None:
    """The request, the progress and the answer."""
    ended = replace(TASK, state=State.FAILED, finished_at=NOW + 2, answer=failure(ERROR))
    view = json.loads(json.dumps(task_details(ended, [{"text": "halfway"}])))
    assert view["request"]["prompt"] == "Implement a function"
    assert (view["answer"]["error_code"], view["answer"]["exit"]) == ("AGENT_BUSY", 122)
    assert view["answer"]["advice"] == ErrorCode.AGENT_BUSY.advice
    assert view["progress"] == [{"text": "halfway"}]
    assert {**view, **task_summary(ended)} == view
    assert task_details(TASK, [])["answer"] is None


@pytest.mark.parametrize(
    ("changed", "states"),
    [
        ({}, [("received", NOW)]),
        ({"state": State.QUEUED}, [("received", NOW), ("queued", None)]),
        ({"state": State.RUNNING, "started_at": NOW + 1}, [("received", NOW), ("running", NOW + 1)]),
        (
            {"state": State.DONE, "started_at": NOW + 1, "finished_at": NOW + 2},
            [("received", NOW), ("running", NOW + 1), ("done", NOW + 2)],
        ),
        ({"state": State.CANCELLED, "finished_at": NOW + 2}, [("received", NOW), ("cancelled", NOW + 2)]),
    ],
)
def test_the_history_of_states(changed: dict[str, Any], states: list[tuple[str, int | None]]) -> None:
    """With the times that are known; the last is the current state."""
    assert [(one["state"], one["at"]) for one in state_history(replace(TASK, **changed))] == states


def test_a_refusal_has_the_fields_of_an_answer() -> None:
    """Code, reason, advice, and exit code."""
    said = refusal_json(ERROR)
    answer = answer_json(State.FAILED, failure(ERROR))
    assert {name: said[name] for name in ("error_code", "advice", "exit")} == {
        name: answer[name] for name in ("error_code", "advice", "exit")
    }
    assert (said["reason"], said["metadata"]) == ("It is busy.", {"current_task": "t"})
