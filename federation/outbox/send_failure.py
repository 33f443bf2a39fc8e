"""What a failed transaction means for the next attempt."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federation.client.errors import PeerRefused
from federation.matrix.errors import PeerError


class FailureKind(StrEnum):
    """The values are metric labels."""

    AWAY = "away"
    """Not there, in trouble, or not willing to speak with us: the same again, later."""
    BUSY = "busy"
    """There, and asks to be given time."""
    OBJECTED = "objected"
    """There, and objects to something in this very transaction: the same again would fail again."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    retry_after_ms: int | None = None


OBJECTIONS: Final = frozenset({400, 413})


def failure_of(error: PeerError) -> Failure:
    """An objection is one only in Matrix's own words: a proxy answers 400 to anything."""
    if not isinstance(error, PeerRefused):
        return Failure(FailureKind.AWAY)
    if error.status == 429:
        return Failure(FailureKind.BUSY, error.retry_after_ms)
    if error.status in OBJECTIONS and error.errcode is not None:
        return Failure(FailureKind.OBJECTED)
    return Failure(FailureKind.AWAY, error.retry_after_ms)
