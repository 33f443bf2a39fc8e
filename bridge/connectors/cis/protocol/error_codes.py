"""How the outcome of a task is said in a `task.response`, and how one is read.

"`success:false, exit_code:-1`, `metadata.error_code`; an ordinary failure of the tool has exit code 1 and no
code". Published nodes set no code at all: their −1 is a failure like another.

What `POST /_cis/v1/event/receive` answers, and what a peer's answer to ours means.

Published senders take 200 and 202 for success, and look for `400`, `401`, `403` and `404` anywhere in status
and body to know that trying again is no use. So an answer after which they should try again holds none of
these digits, not even in the event's id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.connectors.cis.protocol.events import TaskResult
from bridge.connectors.cis.protocol.json_values import sendable, sendable_members
from bridge.connectors.cis.protocol.refusals import (
    Forbidden,
    InvalidPayload,
    Refusal,
    TooFast,
    TooLarge,
    Unavailable,
)
from bridge.tasks.answer import Answer
from bridge.tasks.errors import EXIT_CODE, ErrorCode
from bridge.text.terminal import harmless

KEY: Final = "error_code"
FAILED: Final = 1


def result_of(answer: Answer) -> TaskResult:
    # A code that the tool's own metadata has is not one of ours.
    metadata = {name: value for name, value in sendable_members(answer.metadata).items() if name != KEY}
    if answer.error_code is not None:
        metadata[KEY] = answer.error_code.value
    return TaskResult(
        success=answer.success,
        output=sendable(answer.output),
        exit_code=_exit_code(answer),
        metadata=metadata,
    )


def answer_of(result: TaskResult) -> Answer:
    code = None if result.success else _code(result.metadata.get(KEY))
    return Answer(result.success, result.output, result.exit_code, result.metadata, code)


def _code(said: object) -> ErrorCode | None:
    """A code that nobody knows is none."""
    return ErrorCode(said) if isinstance(said, str) and said in ErrorCode.__members__ else None


def _exit_code(answer: Answer) -> int:
    """A success is 0, a code −1; and what else ended badly is not 0, whatever the tool says."""
    if answer.success:
        return 0
    if answer.error_code is not None:
        return EXIT_CODE
    return answer.exit_code if answer.exit_code and -(2**31) <= answer.exit_code < 2**31 else FAILED


_FINAL: Final = ("400", "401", "403", "404")
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """`retry_after` is for the header of that name, in seconds: in the body it would be digits."""

    status: int
    body: Mapping[str, Any] = field(repr=False)
    retry_after: int | None = None


def accepted(event_id: str) -> TaskAnswer:
    """Also of an event that was here before: "a known `event_id` is accepted again and ignored"."""
    return TaskAnswer(200, {"accepted": True, "event_id": event_id})


def refused(refusal: Refusal, event_id: str = "") -> TaskAnswer:
    """400 is "never retried; 413 too large, 429 too fast, 503 when storage is away"."""
    match refusal:
        case InvalidPayload():
            return TaskAnswer(400, _body(str(refusal), event_id))
        case Forbidden():
            return TaskAnswer(403, _body(str(refusal), event_id))
        case TooLarge():
            return TaskAnswer(413, _body(str(refusal), event_id))
        case TooFast(retry_after_ms=wait):
            body = _body("Too many events at once: send it again later.", _untrapped(event_id))
            return TaskAnswer(429, body, max(1, -(-wait // 1000)))
        case Unavailable():
            body = _body("The event could not be stored: send it again later.", _untrapped(event_id))
            return TaskAnswer(503, body)


def _body(error: str, event_id: str) -> dict[str, Any]:
    return {"accepted": False, "error": error, "event_id": event_id}


def _untrapped(event_id: str) -> str:
    return "" if any(digits in event_id for digits in _FINAL) else event_id


# -- answers to us --


@dataclass(frozen=True, slots=True)
class Delivered:
    """The peer has it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """It will never take it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Again:
    """Not now."""

    reason: str


Outcome = Delivered | Ended | Again

_LATER: Final = frozenset({408, 425, 429})


def outcome(status: int, body: Any) -> Outcome:
    """`body` is the answer's JSON; None if it has none."""
    said = body if isinstance(body, dict) else {}
    error = said.get("error")
    reason = f"answered {status}" + (f": {harmless(error, _LONGEST)}" if isinstance(error, str) else "")
    if status in {200, 202}:
        return Delivered() if said.get("accepted") is True else Ended(reason)
    # "400, 401, 403, 404, 413 end it." So do 415 and 422: a published node answers so to what it cannot
    # read, and will not read it better the next time.
    if 400 <= status < 500 and status not in _LATER:
        return Ended(reason)
    return Again(reason)
