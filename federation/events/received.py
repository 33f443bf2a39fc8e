"""What became of an event that another server sent."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event is part of the room."""


@dataclass(frozen=True, slots=True)
class SoftFailed:
    """Known, served to whoever asks for it, part of state resolution; but nobody is told of it and nothing of
    ours follows it."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """Remembered, so that what refers to it is judged alike everywhere; it changes nothing."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """As if it had never come."""

    text: str

    def __str__(self) -> str:
        return self.text


Verdict = Accepted | SoftFailed | Rejected
ReceiveResult = Verdict | Dropped
"""How an event ended that another server sent."""

ACCEPTED: Final = Accepted()
