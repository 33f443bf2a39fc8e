"""Detects that an agent's command does not work at all, as opposed to failing at a task, and when to try it
again.

A command that cannot be started does not work. Neither does one that repeatedly ends within a moment, with an
error and without output. The agent then gets no tasks for a while, and for longer after each further failure.
"""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bridge.agents.local.output import Ending, Exited, NotStarted, Signalled
from bridge.agents.local.process import CommandSettings, TaskRun
from storage.concurrency import BackgroundTasks

IMMEDIATE_SECONDS: Final = 2.0
"""Seconds."""
FAILURES: Final = 3
"""Consecutive failures, each within a moment."""
MIN_RETRY_DELAY: Final = 1.0
MAX_RETRY_DELAY: Final = 60.0


@dataclass(frozen=True, slots=True)
class Failed:
    """`problem` is a sentence for the operator. The next try is after `pause` seconds."""

    problem: str
    pause: float


class Health:
    """The health of one agent's command."""

    def __init__(self) -> None:
        self._failures = 0
        self._pauses = 0

    def ended(self, ending: Ending, seconds: float, *, has_output: bool) -> Failed | None:
        """Record the end of a process after `seconds`."""
        problem = _problem(ending, seconds, has_output=has_output)
        if problem is None:
            self._failures = self._pauses = 0
            return None
        self._failures += 1
        if self._failures < FAILURES and not isinstance(ending, NotStarted):
            return None
        return self.failed(problem)

    def failed(self, problem: str) -> Failed:
        """Record that the command does not work."""
        # After the pause a single further failure counts.
        self._failures = FAILURES - 1
        self._pauses += 1
        return Failed(problem, min(MIN_RETRY_DELAY * 2.0 ** min(self._pauses - 1, 10), MAX_RETRY_DELAY))


def _problem(ending: Ending, seconds: float, *, has_output: bool) -> str | None:
    match ending:
        case NotStarted(_, problem):
            return problem
        case Exited(code) if code != 0 and seconds < IMMEDIATE_SECONDS and not has_output:
            return f"The command ends at once with exit code {code} and without output."
        case Signalled(_, name) if seconds < IMMEDIATE_SECONDS and not has_output:
            return f"The command ends at once with the signal {name} and without output."
        case _:
            return None


class HealthMonitor:
    """`failed` is called with a sentence for the operator when the command stops working, `recovered` before
    the next try."""

    def __init__(
        self, settings: CommandSettings, *, failed: Callable[[str], None], recovered: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._failed = failed
        self._recovered = recovered
        self._health = Health()
        self._is_working = asyncio.Event()
        self._is_working.set()
        self._background = BackgroundTasks()
        self.problem: str | None = None

    async def wait(self) -> None:
        """Wait until the command works, as far as is known."""
        await self._is_working.wait()

    def record(self, run: TaskRun) -> None:
        """Record the run of a task."""
        if run.ending is None:
            return
        failed = self._health.ended(run.ending, run.seconds, has_output=run.has_output)
        if failed is None:
            if self._is_working.is_set():
                self.problem = None
        elif self._is_working.is_set():
            self._is_working.clear()
            self.problem = failed.problem
            self._background.spawn("try an agent again", self._recover(failed))
            self._failed(failed.problem)

    async def close(self) -> None:
        await self._background.close()

    async def _recover(self, failed: Failed) -> None:
        while True:
            self.problem = failed.problem
            await asyncio.sleep(failed.pause)
            problem = problem_of(self._settings)
            if problem is None:
                break
            failed = self._health.failed(problem)
        self._is_working.set()
        self._recovered()


def problem_of(settings: CommandSettings) -> str | None:
    """A problem that is visible without starting the command."""
    if not settings.directory.is_dir():
        return f"The directory {settings.directory} does not exist."
    program = settings.words[0]
    if not isinstance(program, str) or "{" in program:
        return None
    path = str(settings.directory / program) if "/" in program else program
    if shutil.which(path, path=settings.environment.get("PATH")) is None:
        return f"The command {program} was not found or is not executable."
    return None
