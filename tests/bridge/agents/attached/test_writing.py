"""The node's WebSocket messages."""

import json
from collections.abc import Sequence

import pytest

from bridge.agents.attached.codec import call_answer_json, push_json
from bridge.agents.attached.messages import (
    CallAnswer,
    EmptyResponse,
    Message,
    Push,
    RegisterResponse,
    Task,
    TaskCallResponse,
    WorkRef,
)
from bridge.agents.work import TaskAssignment
from tests.bridge.agents.agent_tasks import task

NOW = 1_000


@pytest.mark.parametrize("cancelled", [[], ["7", "8"]])
@pytest.mark.parametrize(
    "given",
    [
        None,
        task(deadline_ms=NOW + 2_500),
        task(deadline_ms=NOW - 1, system_prompt="Be brief", model="m", context="c"),
        task(prompt='"ü\u2028\\n', metadata={"a": [1, 2.5, None, {"b": True}]}),
    ],
)
def test_a_push_matches_its_model(given: TaskAssignment | None, cancelled: Sequence[str]) -> None:
    """Defaults are omitted."""
    described = Push(task=None if given is None else Task.of(given, NOW), cancelled=list(cancelled))
    said = json.loads(push_json(given, cancelled, NOW))
    assert said == described.model_dump(mode="json", exclude_defaults=True)
    assert Push.model_validate(said, strict=True) == described


@pytest.mark.parametrize(
    "answer",
    [
        TaskCallResponse(wanted=True),
        EmptyResponse(),
        RegisterResponse(
            address="ü@here",
            heartbeat_seconds=1.0,
            silence_seconds=2.0,
            begin_seconds=0.5,
            working=[WorkRef(work_id="1", attempt=2)],
        ),
    ],
)
def test_an_answer_matches_its_model(answer: Message) -> None:
    """With all fields."""
    described = CallAnswer(id=2**53 - 1, answer=answer.model_dump(mode="json"))
    assert json.loads(call_answer_json(2**53 - 1, answer)) == described.model_dump(mode="json")
