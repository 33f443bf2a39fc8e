"""Values that the parts of the room engine and their callers exchange."""

from collections.abc import Mapping
from dataclasses import dataclass

from federation.events import EventId, Pdu, StateKey
from federation.events.received import ReceiveResult
from federation.matrix.room_version import RoomVersion

State = Mapping[StateKey, EventId]


@dataclass(frozen=True, slots=True)
class RoomView:
    """A snapshot of a room's head. `generation` counts the commits to the room."""

    room_id: str
    version: RoomVersion
    generation: int
    forward_extremities: tuple[EventId, ...]
    state_group: int
    """The current state."""


@dataclass(frozen=True, slots=True)
class CommittedEvent:
    """An accepted event of the timeline, as the outbox receives it after the commit. It may have been
    committed before, if a server that has joined since then has missed it."""

    pdu: Pdu
    version: RoomVersion
    origin: str | None
    """The server that sent the event; None for a local one."""
    destinations: frozenset[str]
    """The remote servers to which this server must send the event. For a local event, or one that was
    submitted to this server for the room, these are the servers joined in the state before it; for a missed
    event, the server that has joined since. Empty for events that their own server sends to the room."""


Results = Mapping[EventId, ReceiveResult]
