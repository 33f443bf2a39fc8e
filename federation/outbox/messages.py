"""Inputs and effects of the state machine of a destination (`destination.py`).

Effects are performed in their order. Times are milliseconds since 1970.
"""

from dataclasses import dataclass
from enum import StrEnum

from federation.outbox.send_failure import Failure
from federation.outbox.send_queue import EduRef, Lane, PduRef


class RemovalReason(StrEnum):
    """Why an item was removed from the queue. The values are metric labels."""

    DELIVERED = "delivered"
    OBJECTED = "objected"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Outage:
    """How long a destination has been failing and when to retry it. It is stored, so that it survives a
    restart."""

    failing_since: int
    failures: int
    retry_at: int


# Inputs.


@dataclass(frozen=True, slots=True)
class QueuedItems:
    """Items that were committed to the queue. Ephemeral EDUs are held in memory by the sender only."""

    pdus: tuple[PduRef, ...] = ()
    edus: tuple[EduRef, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of `Load`: the oldest `send_queue.LOAD` items of the lane's queue, or all of them."""

    lane: Lane
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    room_id: str
    count: int
    newest: int


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """The result of `Survey`: each room with queued events."""

    rooms: tuple[Backlog, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionSuccess:
    """The peer responded with 200. `processed`: its response says that the events are in their rooms."""

    processed: bool = False


@dataclass(frozen=True, slots=True)
class TransactionFailure:
    """The transaction was not accepted. `jitter` is a random number between 0 and 1."""

    failure: Failure
    jitter: float


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """The destination sent this server an authenticated request, so it is online."""


@dataclass(frozen=True, slots=True)
class PeerProgress:
    """The peer is known to have this event; see `pacing.py`."""

    room_id: str
    position: int


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of `Probe`. After an error `has_it` is False."""

    room_id: str
    position: int
    has_it: bool


@dataclass(frozen=True, slots=True)
class Timer:
    """The machine's deadline has passed."""


Input = (
    QueuedItems
    | LoadResult
    | SurveyResult
    | TransactionSuccess
    | TransactionFailure
    | PeerRequest
    | PeerProgress
    | ProbeResult
    | Timer
)


# Effects.


@dataclass(frozen=True, slots=True)
class Send:
    """Send these items in a transaction. A repeated number means the same transaction with the same id,
    which the peer may have processed already. 0 is the transaction that was in flight before a restart."""

    number: int
    pdus: tuple[PduRef, ...]
    edus: tuple[EduRef, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove these items from the queue."""

    pdus: tuple[PduRef, ...]
    edus: tuple[EduRef, ...]
    reason: RemovalReason


@dataclass(frozen=True, slots=True)
class Load:
    """Load the lane's oldest items; the result is a `LoadResult`."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Survey:
    """Count the queue of each room; the result is a `SurveyResult`."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Remove all PDUs of the room before position `keep` from the queue."""

    room_id: str
    keep: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Request this event from the peer (`GET /event/{eventId}`); the result is a `ProbeResult`."""

    room_id: str
    position: int


@dataclass(frozen=True, slots=True)
class StoreOutage:
    """Store the outage so that it survives a restart; None deletes it."""

    outage: Outage | None


Effect = Send | Remove | Load | Survey | Skip | Probe | StoreOutage
