"""What one node did to another in the federation of agents, for whoever counts, logs and audits it."""

from dataclasses import dataclass
from enum import StrEnum

from bridge.connectors.cis.protocol.events import AgentEvent, AnyEvent, Message
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload, Refusal, TooFast, TooLarge


class Verdict(StrEnum):
    """Few: they are metric labels."""

    TAKEN = "taken"
    KEPT = "kept"
    """Of a type that nobody knows: stored, and not acted on."""
    REPEATED = "repeated"
    INVALID = "invalid"
    FORBIDDEN = "forbidden"
    TOO_LARGE = "too_large"
    TOO_FAST = "too_fast"
    UNAVAILABLE = "unavailable"
    SENT = "sent"
    FAILED = "failed"
    """Ours was not taken."""


@dataclass(frozen=True, slots=True)
class Act:
    """`peer` is None for who is nobody that we know, and for what is said to all. `type` may be anything that
    a peer has written. `user`, `room_id` and `subject` are for finding it again."""

    peer: str | None
    type: str
    verdict: Verdict
    user: str | None = None
    room_id: str | None = None
    subject: str | None = None
    detail: str | None = None

    @property
    def is_ours(self) -> bool:
        return self.verdict in {Verdict.SENT, Verdict.FAILED}


def verdict_of(refusal: Refusal) -> Verdict:
    match refusal:
        case InvalidPayload():
            return Verdict.INVALID
        case Forbidden():
            return Verdict.FORBIDDEN
        case TooLarge():
            return Verdict.TOO_LARGE
        case TooFast():
            return Verdict.TOO_FAST
        case _:
            return Verdict.UNAVAILABLE


def subject_of(event: AnyEvent) -> str:
    """By which it is found again: the agent of which something is said, or what a request or a message is
    called."""
    if isinstance(event, AgentEvent):
        return str(event.agent)
    return event.message_id if isinstance(event, Message) else event.request_id
