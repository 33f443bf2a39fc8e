"""The record of one agent event that this node sent or received, for metrics, the log, the audit and the live
view."""

from dataclasses import dataclass
from enum import StrEnum

from bridge.connectors.cis.protocol.events import AgentEvent, AnyEvent, Message
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload, RateLimited, Refusal, TooLarge


class Verdict(StrEnum):
    """The outcome of an event. The values are metric labels, so the set is small and fixed."""

    TAKEN = "taken"
    """Received and acted on."""
    KEPT = "kept"
    """Received with an unknown type: stored, and not acted on."""
    REPEATED = "repeated"
    """Received before under the same id, with the same content."""
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    TOO_LARGE = "too_large"
    TOO_FAST = "too_fast"
    UNAVAILABLE = "unavailable"
    SENT = "sent"
    FAILED = "failed"
    """An event of this node could not be sent."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """`peer` is None for an unknown peer and for a broadcast. `type` is unchecked text from the peer. `user`,
    `room_id` and `subject` identify the event for later searches."""

    peer: str | None
    type: str
    verdict: Verdict
    user: str | None = None
    room_id: str | None = None
    subject: str | None = None
    detail: str | None = None

    @property
    def is_outgoing(self) -> bool:
        return self.verdict in {Verdict.SENT, Verdict.FAILED}


def verdict_of(refusal: Refusal) -> Verdict:
    match refusal:
        case InvalidPayload():
            return Verdict.INVALID
        case Forbidden():
            return Verdict.FORBIDDEN
        case TooLarge():
            return Verdict.TOO_LARGE
        case RateLimited():
            return Verdict.TOO_FAST
        case _:
            return Verdict.UNAVAILABLE


def subject_of(event: AnyEvent) -> str:
    """Return the address of the agent that the event reports on, or the id of the request or message."""
    if isinstance(event, AgentEvent):
        return str(event.agent)
    return event.message_id if isinstance(event, Message) else event.request_id
