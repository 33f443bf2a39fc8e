"""What the machine of one destination is told, and what it wants done. See `destination`.

Effects are carried out in their order. Times are milliseconds since 1970.
"""

from dataclasses import dataclass
from enum import StrEnum

from federation.outbox.send_failure import Failure
from federation.outbox.send_queue import EduRef, Lane, PduRef


class Fate(StrEnum):
    """Why something leaves the queue. The values are metric labels."""

    DELIVERED = "delivered"
    OBJECTED = "objected"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Outage:
    """What must survive a restart."""

    failing_since: int
    failures: int
    retry_at: int


# Inputs.


@dataclass(frozen=True, slots=True)
class Queued:
    """These have been committed to the queue; the ephemeral EDUs are only held by the shell."""

    pdus: tuple[PduRef, ...] = ()
    edus: tuple[EduRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """The answer to `Load`: the oldest of the lane's queue, `send_queue.LOAD` of them or all there are."""

    lane: Lane
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Backlog:
    room_id: str
    count: int
    newest: int


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The answer to `Survey`: every room that has something in the queue."""

    rooms: tuple[Backlog, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """200. `processed`: the peer is known to answer only when the events are in their rooms."""

    processed: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The transaction was not accepted. `jitter`: a random number between 0 and 1."""

    failure: Failure
    jitter: float


@dataclass(frozen=True, slots=True)
class Heard:
    """An authenticated request came from that server."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """A sign that the peer has this event of ours: see `room_pace`."""

    room_id: str
    position: int


@dataclass(frozen=True, slots=True)
class Probed:
    """The answer to `Probe`. An error means that it is not known to have it."""

    room_id: str
    position: int
    has_it: bool


@dataclass(frozen=True, slots=True)
class Timer:
    """The deadline came."""


Input = Queued | Loaded | Surveyed | Answered | Failed | Heard | Progressed | Probed | Timer


# Effects.


@dataclass(frozen=True, slots=True)
class Send:
    """Put these into a transaction. A number that was seen before means the very same transaction again,
    under the same id: the peer may have answered it. 0 is the one that was in flight before a restart."""

    number: int
    pdus: tuple[PduRef, ...]
    edus: tuple[EduRef, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Take these out of the queue."""

    pdus: tuple[PduRef, ...]
    edus: tuple[EduRef, ...]
    fate: Fate


@dataclass(frozen=True, slots=True)
class Load:
    """Answer with `Loaded`."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Survey:
    """Answer with `Surveyed`."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Take all PDUs of the room that are older than this out of the queue."""

    room_id: str
    keep: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the peer for this event (`GET /event/{eventId}`), and answer with `Probed`."""

    room_id: str
    position: int


@dataclass(frozen=True, slots=True)
class Remember:
    """Write this down for after a restart; None when there is nothing to remember."""

    outage: Outage | None


Effect = Send | Forget | Load | Survey | Skip | Probe | Remember
