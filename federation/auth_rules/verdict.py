"""The verdict of the authorisation rules on an event."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rules allow the event."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A rule refuses the event."""

    rule: str
    """The rule's number on the page of the room's version, as in `5.3.2`."""

    text: str
    """The text of the rule."""

    detail: str = ""
    """The part of the event that violates the rule, where the rule's text does not say it."""

    def __str__(self) -> str:
        return f"rule {self.rule}: {self.text}" + (f" ({self.detail})" if self.detail else "")


Verdict = Allowed | Refused

ALLOWED: Final = Allowed()
