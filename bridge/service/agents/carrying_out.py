"""From a task to its answer by running a command: what the node does for agents of its own, and
`palaver agent run` for one that is attached from elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bridge.agent_command import PROMPT, Word, fill, placeholders
from bridge.agent_ending import Ending, answer
from bridge.agent_environment import task_environment
from bridge.agent_work import TaskToDo, WorkOutcome
from bridge.service.agents.process import GRACE, Command, ProcessLimits, Tell, run
from bridge.task_error import ErrorCode, TaskError


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an agent's tasks are run."""

    words: tuple[Word, ...]
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    time_limit: float
    """Seconds."""
    max_output: int
    grace: float = GRACE


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """`ending` is None when no process was started for it."""

    outcome: WorkOutcome
    ending: Ending | None = None
    seconds: float = 0.0
    has_answered: bool = False


async def carry_out(recipe: Recipe, task: TaskToDo, tell: Tell, *, now_ms: Callable[[], int]) -> CarriedOut:
    """Cancelled, it leaves no process behind."""
    words = fill(recipe.words, task)
    if isinstance(words, TaskError):
        return CarriedOut(words)
    left = (task.deadline_ms - now_ms()) / 1000
    if left <= 0:
        return CarriedOut(TaskError(ErrorCode.TIMEOUT, "There was no time left when the agent got it."))
    seconds = min(left, recipe.time_limit)
    of_task = task_environment(task)
    command = Command(
        words=words,
        environment={**recipe.environment, **of_task.variables},
        directory=recipe.directory,
        # Where it is an argument it is not said a second time.
        input=b"" if PROMPT in placeholders(recipe.words) else task.prompt.encode("utf-8", "replace"),
        files=of_task.files,
    )
    ran = await run(command, ProcessLimits(seconds, recipe.max_output, recipe.grace), tell)
    outcome = answer(ran.ending, ran.output, ran.said, seconds)
    return CarriedOut(outcome, ran.ending, ran.seconds, bool(ran.output.text.strip()))
