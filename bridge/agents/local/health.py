"""Whether an agent's command works at all, as against a task that it could not do.

One that cannot be started has failed at once. One that ends within a moment, with an error and without a word
of an answer, has failed when it does so again and again. Then it is left alone for a while, and for longer
each time that this does not help.

Whether the command of an agent works, and when it is tried again.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridge.agents.local.output import Ending, Exited, NotStarted, Signalled
from bridge.agents.local.process import CarriedOut, Recipe
from storage.concurrency import BackgroundTasks

MOMENT: Final = 2.0
"""Seconds."""
FAILURES: Final = 3
"""In a row, each within a moment."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Failed:
    """`problem` is a sentence for the operator; after `pause` seconds it is tried again."""

    problem: str
    pause: float


class Health:
    """Of one agent."""

    def __init__(self) -> None:
        self._failures = 0
        self._pauses = 0

    def ended(self, ending: Ending, seconds: float, *, has_answered: bool) -> Failed | None:
        """A process has ended, after some seconds."""
        problem = _problem(ending, seconds, has_answered=has_answered)
        if problem is None:
            self._failures = self._pauses = 0
            return None
        self._failures += 1
        if self._failures < FAILURES and not isinstance(ending, NotStarted):
            return None
        return self.failed(problem)

    def failed(self, problem: str) -> Failed:
        """It does not work, or still does not."""
        # It has the benefit of one task. If that fails as well it is left alone again.
        self._failures = FAILURES - 1
        self._pauses += 1
        return Failed(problem, min(FIRST_PAUSE * 2.0 ** min(self._pauses - 1, 10), LONGEST_PAUSE))


def _problem(ending: Ending, seconds: float, *, has_answered: bool) -> str | None:
    match ending:
        case NotStarted(_, problem):
            return problem
        case Exited(code) if code != 0 and seconds < MOMENT and not has_answered:
            return f"The command ends at once, with exit code {code} and without an answer."
        case Signalled(_, name) if seconds < MOMENT and not has_answered:
            return f"The command ends at once, by {name} and without an answer."
        case _:
            return None


class Fitness:
    """`failed` is told when it does not work any more, in a sentence for the operator; `recovered` when it is
    tried again."""

    def __init__(
        self, recipe: Recipe, *, failed: Callable[[str], None], recovered: Callable[[], None]
    ) -> None:
        self._recipe = recipe
        self._failed = failed
        self._recovered = recovered
        self._health = Health()
        self._works = asyncio.Event()
        self._works.set()
        self._background = BackgroundTasks()
        self.problem: str | None = None

    async def wait(self) -> None:
        """Until it works, as far as anybody knows."""
        await self._works.wait()

    def judge(self, carried_out: CarriedOut) -> None:
        """A task has ended."""
        if carried_out.ending is None:
            return
        failed = self._health.ended(
            carried_out.ending, carried_out.seconds, has_answered=carried_out.has_answered
        )
        if failed is None:
            if self._works.is_set():
                self.problem = None
        elif self._works.is_set():
            self._works.clear()
            self.problem = failed.problem
            self._background.spawn("try an agent again", self._recover(failed))
            self._failed(failed.problem)

    async def close(self) -> None:
        await self._background.close()

    async def _recover(self, failed: Failed) -> None:
        while True:
            self.problem = failed.problem
            await asyncio.sleep(failed.pause)
            problem = problem_of(self._recipe)
            if problem is None:
                break
            failed = self._health.failed(problem)
        self._works.set()
        self._recovered()


def problem_of(recipe: Recipe) -> str | None:
    """What can be seen without starting it."""
    if not recipe.directory.is_dir():
        return f"There is no directory {recipe.directory}."
    program = recipe.words[0]
    if not isinstance(program, str) or "{" in program:
        return None
    path = str(recipe.directory / program) if "/" in program else program
    if shutil.which(path, path=recipe.environment.get("PATH")) is None:
        return f"The command {program} was not found, or may not be run."
    return None
