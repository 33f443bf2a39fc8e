"""From a task to its outcome."""

from pathlib import Path

from bridge.agents.local.command import Word
from bridge.agents.local.output import Exited
from bridge.agents.local.process import CommandSettings, TaskRun, run_task
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from tests.bridge.agents.agent_tasks import task
from tests.support.agents import NOW, Clock


def recipe(*words: Word, time_limit: float = 60.0) -> CommandSettings:
    return CommandSettings(words, {"PATH": "/usr/bin:/bin", "OWN": "1"}, Path("/"), time_limit, 1 << 20)


async def carried_out(made: CommandSettings, **said: object) -> TaskRun:
    async def tell(message: str) -> None:
        pass

    return await run_task(made, task(**{"deadline_ms": NOW + 60_000, **said}), tell, now_ms=Clock())


async def test_the_command_gets_the_task() -> None:
    """Prompt, context and the agent's own variables."""
    done = await carried_out(
        recipe("sh", "-c", 'cat; echo "/$PALAVER_TASK_CONTEXT/$OWN/$1"', "sh", ["{model}"]),
        prompt="Cook",
        context="in the kitchen",
        model="m",
    )
    assert done.outcome == Answer(True, "Cook/in the kitchen/1/m\n", 0)
    assert (done.ending, done.has_output) == (Exited(0), True)


async def test_a_prompt_that_is_an_argument_is_not_input() -> None:
    """Some programs would combine both."""
    done = await carried_out(recipe("sh", "-c", 'echo "$1"; cat', "sh", "{prompt}"), prompt="Cook")
    assert done.outcome == Answer(True, "Cook\n", 0)


async def test_nothing_is_started_after_the_deadline() -> None:
    """Or with an invalid value; the agent's health does not change."""
    late = await carried_out(recipe("true"), deadline_ms=NOW)
    assert isinstance(late.outcome, TaskError)
    assert (late.outcome.code, late.ending) == (ErrorCode.TIMEOUT, None)
    wrong = await carried_out(recipe("echo", "{model}"), model="-n")
    assert isinstance(wrong.outcome, TaskError)
    assert (wrong.outcome.code, wrong.ending) == (ErrorCode.INVALID_PAYLOAD, None)


async def test_the_shorter_time_limit_applies() -> None:
    """The agent's limit, or the task's remaining time."""
    for made, left in ((recipe("sleep", "1000", time_limit=0.2), 60_000), (recipe("sleep", "1000"), 200)):
        done = await carried_out(made, deadline_ms=NOW + left)
        assert isinstance(done.outcome, TaskError)
        assert done.outcome.code is ErrorCode.TIMEOUT
        assert done.seconds < 30
