"""The results of the checks on receipt of a PDU."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Accepted:
    """The event is accepted into the room."""


@dataclass(frozen=True, slots=True)
class SoftFailed:
    """The event is stored, served to other servers and used in state resolution, but not sent to users, and
    not a forward extremity."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """The event is stored only so that all servers get the same result for events that refer to it."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}"


@dataclass(frozen=True, slots=True)
class Dropped:
    """The event is ignored and not stored."""

    text: str

    def __str__(self) -> str:
        return self.text


Verdict = Accepted | SoftFailed | Rejected
ReceiveResult = Verdict | Dropped
"""The result for an event of another server."""

ACCEPTED: Final = Accepted()
