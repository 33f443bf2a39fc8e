"""Classifies failed transactions for the next attempt."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federation.client.errors import PeerRefused
from federation.matrix.errors import PeerError


class FailureKind(StrEnum):
    """The values are metric labels."""

    AWAY = "away"
    """Unreachable, failing, or refusing this server: the same transaction is sent again later."""
    BUSY = "busy"
    """Online, and responds with 429."""
    OBJECTED = "objected"
    """Online, and refuses something in this transaction: sending it again would fail again."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    retry_after_ms: int | None = None


OBJECTIONS: Final = frozenset({400, 413})


def failure_of(error: PeerError) -> Failure:
    """Classify the error. 400 and 413 count as refusals only with a Matrix error code: a proxy may respond
    with 400 to anything."""
    if not isinstance(error, PeerRefused):
        return Failure(FailureKind.AWAY)
    if error.status == 429:
        return Failure(FailureKind.BUSY, error.retry_after_ms)
    if error.status in OBJECTIONS and error.errcode is not None:
        return Failure(FailureKind.OBJECTED)
    return Failure(FailureKind.AWAY, error.retry_after_ms)
