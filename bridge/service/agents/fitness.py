"""Whether the command of an agent works, and when it is tried again."""

import asyncio
import shutil
from collections.abc import Callable

from bridge.agent_health import Failed, Health
from bridge.service.agents.carrying_out import CarriedOut, Recipe


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
        self._recovering: asyncio.Task[None] | None = None
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
            self._recovering = asyncio.create_task(self._recover(failed))
            self._failed(failed.problem)

    async def close(self) -> None:
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)

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
