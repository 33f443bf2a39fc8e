"""What the parts of the room graph and its callers hand to each other."""

from collections.abc import Mapping
from dataclasses import dataclass

from federation.events import EventId, Pdu, StateKey
from federation.events.received import Receipt
from federation.matrix.room_version import RoomVersion

State = Mapping[StateKey, EventId]


@dataclass(frozen=True, slots=True)
class RoomView:
    """Where a room stood when it was looked at."""

    room_id: str
    version: RoomVersion
    generation: int
    forward_extremities: tuple[EventId, ...]
    state_group: int
    """The current state."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An accepted event of the timeline, as the hook on commit is told of it; known before, if somebody has
    missed it."""

    pdu: Pdu
    version: RoomVersion
    origin: str | None
    """The server that sent it to us; None for our own."""
    destinations: frozenset[str]
    """Servers, without ourselves, that must be told by us: those joined in the state before the event, if it
    is ours or was handed to us for the room; or one that has come since and missed it. Empty for what others
    send round themselves."""


Results = Mapping[EventId, Receipt]
