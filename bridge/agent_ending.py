"""How the end of an agent's process becomes an answer."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from bridge.agent_output import Kept
from bridge.agent_work import WorkOutcome
from bridge.task_answer import Answer
from bridge.task_error import ErrorCode, TaskError

SIGNALLED: Final = 128
"""Shells add it to the number of the signal that ended a program."""
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
LONGEST_DETAIL: Final = 1_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Exited:
    code: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """By somebody else than us."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """`reason` is a sentence that names nothing of this machine: whoever asked for the task reads it.
    `problem` is for the operator."""

    reason: str
    problem: str
    code: int = NOT_STARTED


class Ended(StrEnum):
    """By us."""

    TIME_LIMIT = "time limit"
    FLOOD = "flood"
    """It wrote without end."""
    LOST = "lost"
    """Nobody knows how it ended: what watched it was killed."""


Ending: TypeAlias = Exited | Signalled | NotStarted | Ended


def answer(ending: Ending, output: Kept, said: str, seconds: float) -> WorkOutcome:
    """`said` is the end of what it wrote to standard error; `seconds` is the time that it had."""
    match ending:
        case Exited(0):
            return Answer(True, output.text, 0, _cut(output))
        case Exited(code):
            return _failure(output, said, code, {})
        case Signalled(number, name):
            return _failure(output, said, SIGNALLED + number, {"signal": name})
        case NotStarted(reason, _, code):
            return Answer(False, reason, code, {"not_started": True})
        case Ended.TIME_LIMIT:
            # How far it came helps whoever asks again with more time.
            reason = f"The agent had not finished after {seconds:.0f} s, and was ended."
            return TaskError(ErrorCode.TIMEOUT, reason, _details(output, said))
        case Ended.FLOOD:
            return _failure(output, said, 1, {"ended": "It wrote without end."})
        case Ended.LOST:
            return _failure(output, said, 1, {"ended": "What watched over the process was killed."})


def _failure(output: Kept, said: str, code: int, metadata: dict[str, Any]) -> Answer:
    """Many programs say to standard error alone what went wrong."""
    text = output.text if output.text.strip() else said
    return Answer(False, text, code, {**metadata, **_cut(output), **({"stderr": said} if said else {})})


def _cut(output: Kept) -> dict[str, Any]:
    if not output.left_out:
        return {}
    return {"output_bytes": output.total, "output_left_out": output.left_out}


def _details(output: Kept, said: str) -> dict[str, Any]:
    """The end of both."""
    return {
        **({"output": output.text[-LONGEST_DETAIL:]} if output.text else {}),
        **({"stderr": said} if said else {}),
    }
