"""The messages of the API."""

import pytest
from pydantic import ValidationError

from bridge.agents.attached.messages import Failure, Progress, Register, Result, Task
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from tests.bridge.agents.agent_tasks import task

NOW = 1_000_000
SESSION = "session-1"


def test_a_task_arrives_as_it_was_sent() -> None:
    """Its deadline is by the recipient's clock, because clocks differ."""
    sent = task(context="c", system_prompt="s", model="m", metadata={"a": [1]}, deadline_ms=NOW + 5_000)
    message = Task.of(sent, NOW)
    assert message.seconds_left == 5.0
    arrived = Task.model_validate_json(message.model_dump_json())
    elsewhere = NOW + 86_400_000
    assert arrived.to_do(elsewhere) == task(
        context="c", system_prompt="s", model="m", metadata={"a": [1]}, deadline_ms=elsewhere + 5_000
    )
    assert Task.of(sent, NOW + 10_000).seconds_left == 0.0


def test_an_answer_and_an_error_become_outcomes() -> None:
    """A failure of the tool is an answer without an error code."""
    assert Result(
        session=SESSION, attempt=1, success=False, output="no", exit_code=3, metadata={"a": 1}
    ).outcome() == Answer(False, "no", 3, {"a": 1})
    failure = Failure(session=SESSION, attempt=1, code="TIMEOUT", reason="Too late.", metadata={"a": 1})
    assert failure.outcome() == TaskError(ErrorCode.TIMEOUT, "Too late.", {"a": 1})


def test_names_of_runtimes_and_capabilities() -> None:
    """`opencode` is `open_code`, and of two spellings of a capability the first one stays."""
    said = Register(session=SESSION, runtime="opencode", capabilities=["Coding", "coding"])
    assert (said.runtime, said.capabilities) == ("open_code", ["Coding"])


def test_unpaired_surrogates_are_refused() -> None:
    """They could not be stored."""
    with pytest.raises(ValidationError, match="unicode"):
        Progress(session=SESSION, attempt=1, text="\ud800")
