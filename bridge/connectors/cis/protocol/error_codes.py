"""Results of tasks in `task.response`, and responses of `POST /_cis/v1/event/receive`.

Results: "`success:false, exit_code:-1`, `metadata.error_code`; an ordinary failure of the tool has exit code
1 and no code". Published nodes never set a code: their −1 is read as an ordinary failure.

Responses: published senders treat 200 and 202 as success, and search the status and the body for `400`,
`401`, `403` and `404` to decide that a retry is useless. So a response after which they should retry must not
contain these digits, not even in the event id.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.connectors.cis.protocol.events import TaskResult
from bridge.connectors.cis.protocol.json_values import sendable, sendable_members
from bridge.connectors.cis.protocol.refusals import (
    Forbidden,
    InvalidPayload,
    RateLimited,
    Refusal,
    TooLarge,
    Unavailable,
)
from bridge.tasks.answer import Answer
from bridge.tasks.errors import EXIT_CODE, ErrorCode
from bridge.text.terminal import harmless

KEY: Final = "error_code"
FAILED: Final = 1


def to_result(answer: Answer) -> TaskResult:
    # An `error_code` in the tool's own metadata is not an error code of this protocol.
    metadata = {name: value for name, value in sendable_members(answer.metadata).items() if name != KEY}
    if answer.error_code is not None:
        metadata[KEY] = answer.error_code.value
    return TaskResult(
        success=answer.success, output=sendable(answer.output), exit_code=_exit_code(answer), metadata=metadata
    )


def to_answer(result: TaskResult) -> Answer:
    code = None if result.success else _code(result.metadata.get(KEY))
    return Answer(result.success, result.output, result.exit_code, result.metadata, code)


def _code(value: object) -> ErrorCode | None:
    """Return the error code; None for an unknown one."""
    return ErrorCode(value) if isinstance(value, str) and value in ErrorCode.__members__ else None


def _exit_code(answer: Answer) -> int:
    """Return 0 for a success, −1 for an error code, and a value other than 0 for any other failure, even if
    the tool reported 0."""
    if answer.success:
        return 0
    if answer.error_code is not None:
        return EXIT_CODE
    return answer.exit_code if answer.exit_code and -(2**31) <= answer.exit_code < 2**31 else FAILED


_FINAL: Final = ("400", "401", "403", "404")
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class EventResponse:
    """The HTTP response to an event. `retry_after` is sent as a header, in seconds: in the body, its digits
    could be mistaken for a status."""

    status: int
    body: Mapping[str, Any] = field(repr=False)
    retry_after: int | None = None


def accepted_response(event_id: str) -> EventResponse:
    """The response to an accepted event, also to a repeated one: "a known `event_id` is accepted again and
    ignored"."""
    return EventResponse(200, {"accepted": True, "event_id": event_id})


def refused_response(refusal: Refusal, event_id: str = "") -> EventResponse:
    """400 is "never retried; 413 too large, 429 too fast, 503 when storage is away"."""
    match refusal:
        case InvalidPayload():
            return EventResponse(400, _body(str(refusal), event_id))
        case Forbidden():
            return EventResponse(403, _body(str(refusal), event_id))
        case TooLarge():
            return EventResponse(413, _body(str(refusal), event_id))
        case RateLimited(retry_after_ms=wait):
            body = _body("Rate limit exceeded: send the event again later.", _retryable_event_id(event_id))
            return EventResponse(429, body, max(1, -(-wait // 1000)))
        case Unavailable():
            body = _body("The event could not be stored: send it again later.", _retryable_event_id(event_id))
            return EventResponse(503, body)


def _body(error: str, event_id: str) -> dict[str, Any]:
    return {"accepted": False, "error": error, "event_id": event_id}


def _retryable_event_id(event_id: str) -> str:
    """Return the event id, or nothing if it contains digits that stop the sender from retrying."""
    return "" if any(digits in event_id for digits in _FINAL) else event_id


# -- responses of peers --


@dataclass(frozen=True, slots=True)
class Delivered:
    """The peer accepted the event."""


@dataclass(frozen=True, slots=True)
class PermanentFailure:
    """The peer will never accept the event."""

    reason: str


@dataclass(frozen=True, slots=True)
class TemporaryFailure:
    """The event can be sent again later."""

    reason: str


SendResult = Delivered | PermanentFailure | TemporaryFailure

_RETRYABLE: Final = frozenset({408, 425, 429})


def send_result(status: int, body: Any) -> SendResult:
    """Classify a peer's response. `body` is its decoded JSON; None if it has none."""
    members = body if isinstance(body, dict) else {}
    error = members.get("error")
    reason = f"answered {status}" + (f": {harmless(error, _LONGEST)}" if isinstance(error, str) else "")
    if status in {200, 202}:
        return Delivered() if members.get("accepted") is True else PermanentFailure(reason)
    # "400, 401, 403, 404, 413 end it." So do 415 and 422: a published node sends them for an event that it
    # cannot read, and a retry would not change that.
    if 400 <= status < 500 and status not in _RETRYABLE:
        return PermanentFailure(reason)
    return TemporaryFailure(reason)
