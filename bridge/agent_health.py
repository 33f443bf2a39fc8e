"""Whether an agent's command works at all, as against a task that it could not do.

One that cannot be started has failed at once. One that ends within a moment, with an error and without a word
of an answer, has failed when it does so again and again. Then it is left alone for a while, and for longer
each time that this does not help.
"""

from dataclasses import dataclass
from typing import Final

from bridge.agent_ending import Ending, Exited, NotStarted, Signalled

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
