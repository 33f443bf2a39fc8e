"""An event of ours before it is made: what it says, and not yet where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.pdu import EventId


@dataclass(frozen=True, slots=True)
class NewEvent:
    """`ts` is the time that it bears, in milliseconds; None for the time at which it is made."""

    type: str
    sender: str
    content: Mapping[str, Any]
    state_key: str | None = None
    redacts: EventId | None = None
    ts: int | None = None
