"""Why an event is not taken. What each is answered with over HTTP is in `answers`."""

from dataclasses import dataclass

from bridge.text.terminal import harmless


@dataclass(frozen=True, slots=True)
class InvalidPayload:
    """`INVALID_PAYLOAD`: the message's format is wrong. `field` is the path to what is wrong, `problem` what
    comes behind it in a sentence."""

    field: str
    problem: str

    def __str__(self) -> str:
        return f"INVALID_PAYLOAD: {harmless(self.field, 200)} {self.problem}."


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Whoever sent it may not send this. `reason` is a sentence."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class TooLarge:
    """More than anybody takes. `reason` is a sentence."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class TooFast:
    """One that may come again."""

    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Unavailable:
    """It could not be kept; it may come again."""


Refusal = InvalidPayload | Forbidden | TooLarge | TooFast | Unavailable
