"""What the authorisation rules say of an event."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rules allow the event."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The rules refuse the event, and this one did."""

    rule: str
    """The rule's number on the page of the room's version, as in `5.3.2`."""

    text: str
    """What the rule says."""

    detail: str = ""
    """What of the event is meant, where the rule does not say."""

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}" + (f" ({self.detail})" if self.detail else "")


Verdict = Allowed | Refused

ALLOWED: Final = Allowed()
