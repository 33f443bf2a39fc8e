"""Why an event is refused. `error_codes.refused_response` has the HTTP response to each."""

from dataclasses import dataclass

from bridge.text.terminal import harmless


@dataclass(frozen=True, slots=True)
class InvalidPayload:
    """`INVALID_PAYLOAD`: the format is wrong. `field` is the path of the wrong field; `problem` continues a
    sentence that begins with it."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"INVALID_PAYLOAD: {harmless(self.field, 200)} {self.problem}."


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The sender may not send this event. `reason` is a sentence."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The event exceeds the size limit. `reason` is a sentence."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class RateLimited:
    """The sender exceeds its rate limit; it may send the event again later."""

    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The event could not be stored; the sender may send it again."""


Refusal = InvalidPayload | Forbidden | TooLarge | RateLimited | Unavailable
