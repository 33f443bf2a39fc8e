"""Limits how many events of one room are in flight to one server.

A 200 to `/send` means that the events are in the peer's staging area, not that they are in the room. When
Synapse has staged a hundred events of one room, it discards those that others refer to and fetches them
again ten at a time, requesting the state with each batch: sending faster makes it slower. So at most
`WINDOW` events of a room are sent ahead of those that the peer is known, or assumed, to have processed.
The rest of the hundred is left to events that other servers send it for the same room.

The peer is known to have processed an event when it returns it (`GET /event/{eventId}` gives 404 while the
event is only staged), when it refers to it in an event of its own, when one of its users has read it, or
when its response to `/send` says that the events were processed. In addition, a slow rate of progress is
assumed: a server that shows none of these signs must not be left with the first eighty events for ever.
But information from the server takes precedence over the assumption: under load it may be slower than the
assumed rate.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from federation.outbox.send_queue import PduRef

WINDOW: Final = 80
ASSUMED_PER_SECOND: Final = 10
"""The rate at which each server that is online is assumed to process events of a room. A Synapse on two
small cores processes fifty."""

FIRST_PROBE_DELAY_MS: Final = 200
MAX_PROBE_INTERVAL_MS: Final = 2_000
PROBE_PRECEDENCE_MS: Final = 10_000
"""For so long after a probe or its result no progress is assumed: the server's own information counts."""
STUCK_MS: Final = 20_000
"""When no event was confirmed for so long, progress is assumed nevertheless: a server may never return an
event that it has rejected, and some servers may not return any."""


_UNKNOWN: Final = -1


class RoomPacer:
    """Limits the events of one room in flight to one server. Positions are those of the queue; they
    increase.

    `assumed` is the number of events that may be in flight from before this object was created.
    """

    def __init__(self, assumed: int = 0, now_ms: int = 0) -> None:
        self._unconfirmed: deque[int] = deque([_UNKNOWN] * assumed)
        # Progress is assumed from here on. It moves in whole events only, so that fractions are not lost.
        self._assumed_until = now_ms
        self._staged_to = _UNKNOWN
        self._probe_interval = FIRST_PROBE_DELAY_MS
        self._probe_at = 0
        self._confirmed_at = now_ms
        self._failed_probes = 0
        self.probing: int | None = None
        """The position of the event for which a probe is running."""

    def allowance(self, now_ms: int) -> int:
        """Return how many events may be sent now."""
        self._assume_progress(now_ms)
        return WINDOW - len(self._unconfirmed)

    def allowed_at(self, count: int) -> int:
        """Return when `count` events may be sent if no event is confirmed until then."""
        short = len(self._unconfirmed) + min(count, WINDOW) - WINDOW
        return self._assumed_until + -(-max(short, 0) * 1000 // ASSUMED_PER_SECOND)

    def sent(self, positions: Iterable[int], now_ms: int) -> None:
        self._assume_progress(now_ms)
        new = [position for position in positions if position not in self._unconfirmed]
        # A transaction that is repeated, or gets a late response, may contain events that were assumed to
        # be processed.
        self._unconfirmed = deque(sorted([*self._unconfirmed, *new]))

    def staged(self, positions: Iterable[int], now_ms: int) -> None:
        """Record that the peer responded: the events are staged. None of them need have been processed
        before, however long the response took."""
        self.sent(positions, now_ms)
        if not self._can_be_probed:
            # Give the peer time to begin processing.
            self._probe_at = max(self._probe_at, now_ms + FIRST_PROBE_DELAY_MS)
        self._staged_to = max(self._staged_to, *positions)

    def confirmed(self, position: int, now_ms: int) -> None:
        """Record that the peer has this event and all that were sent before it: it processes a room in
        order."""
        if position in self._unconfirmed:
            while self._unconfirmed.popleft() != position:
                pass
        self._assumed_until = max(self._assumed_until, now_ms)
        self._confirmed_at = now_ms

    def probe(self, now_ms: int) -> int | None:
        """Return the position to probe if a probe is due, else None.

        It is in the middle of the staged events, so that more can be sent before the peer has processed
        all; after each probe that found nothing it is nearer to the beginning."""
        due = self.probe_at
        if due is None or now_ms < due:
            return None
        staged = [position for position in self._unconfirmed if 0 <= position <= self._staged_to]
        self.probing = staged[len(staged) >> 1 + self._failed_probes]
        self._suspend_assumption(now_ms)
        return self.probing

    def probed(self, position: int, now_ms: int, *, has_it: bool) -> None:
        """Record the result of a probe. Each time the peer did not have the event, the next probe is
        later."""
        if position != self.probing:
            return
        self.probing = None
        if has_it:
            self._probe_interval = FIRST_PROBE_DELAY_MS
            self._probe_at = now_ms
            self._failed_probes = max(0, self._failed_probes - 1)
            self.confirmed(position, now_ms)
        else:
            self._probe_at = now_ms + self._probe_interval
            self._probe_interval = min(2 * self._probe_interval, MAX_PROBE_INTERVAL_MS)
            self._failed_probes = min(self._failed_probes + 1, WINDOW.bit_length())
        self._suspend_assumption(now_ms)

    @property
    def probe_at(self) -> int | None:
        """When the next probe is due; None while a probe is running, while the window is less than half
        full, and while no event can be probed."""
        if self.probing is not None or 2 * len(self._unconfirmed) < WINDOW or not self._can_be_probed:
            return None
        return self._probe_at

    @property
    def _can_be_probed(self) -> bool:
        """Whether an event with a known position is in the peer's staging area."""
        return any(0 <= position <= self._staged_to for position in self._unconfirmed)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing is in flight, so that the object can be discarded."""
        return self.allowance(now_ms) == WINDOW and self.probing is None

    def _suspend_assumption(self, now_ms: int) -> None:
        if now_ms - self._confirmed_at < STUCK_MS:
            self._assumed_until = max(self._assumed_until, now_ms + PROBE_PRECEDENCE_MS)

    def _assume_progress(self, now_ms: int) -> None:
        if not self._unconfirmed:
            self._assumed_until = self._confirmed_at = now_ms
            return
        passed = (now_ms - self._assumed_until) * ASSUMED_PER_SECOND // 1000
        if passed > 0:
            for _ in range(min(passed, len(self._unconfirmed))):
                self._unconfirmed.popleft()
            self._assumed_until += passed * 1000 // ASSUMED_PER_SECOND


SMALL_BATCH: Final = 10
"""A room whose window is full waits until so many events may be sent together."""
FIRST_AFTER_START: Final = 15
MAX_PROBES: Final = 4
"""How many probes of one server run at the same time."""


class DestinationPacer:
    """Limits the events in flight to one server, for all rooms. `waiting` maps each room to the number of
    its events that could be sent."""

    def __init__(self) -> None:
        self._rooms: dict[str, RoomPacer] = {}
        self._started_at: int | None = None

    def start(self, now_ms: int) -> None:
        """Assume that a full window of events was sent just before the start."""
        if self._started_at is None:
            self._started_at = now_ms

    def allowances(self, waiting: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """Return how many events of each room may be sent; rooms that have to wait are absent."""
        allowances = {}
        for room_id, count in waiting.items():
            allowance = (self._rooms.get(room_id) or self._new(now_ms)).allowance(now_ms)
            if allowance >= min(count, SMALL_BATCH):
                allowances[room_id] = allowance
        return allowances

    def sent(self, pdus: Iterable[PduRef], now_ms: int) -> None:
        """Record that these events are in flight."""
        if self._rooms:
            self._rooms = {room_id: room for room_id, room in self._rooms.items() if not room.is_idle(now_ms)}
        for room_id, positions in _by_room(pdus).items():
            self._room(room_id, now_ms).sent(positions, now_ms)

    def staged(self, pdus: Iterable[PduRef], now_ms: int) -> None:
        """Record a response: these events are in the server's staging area."""
        for room_id, positions in _by_room(pdus).items():
            self._room(room_id, now_ms).staged(positions, now_ms)

    def processed(self, pdus: Sequence[PduRef], now_ms: int) -> None:
        """Record a response of a server that responds after processing the events."""
        self.staged(pdus, now_ms)
        for pdu in pdus:
            self.confirmed(pdu.room_id, pdu.position, now_ms)

    def confirmed(self, room_id: str, position: int, now_ms: int) -> None:
        """Record that the server has this event."""
        room = self._rooms.get(room_id)
        if room is not None:
            room.confirmed(position, now_ms)

    def probed(self, room_id: str, position: int, now_ms: int, *, has_it: bool) -> None:
        room = self._rooms.get(room_id)
        if room is not None:
            room.probed(position, now_ms, has_it=has_it)

    def probes(self, waiting: Iterable[str], now_ms: int) -> list[tuple[str, int]]:
        """Return (room, position) of the probes to start now, for rooms with events waiting to be sent."""
        wanted = []
        free = MAX_PROBES - self._probing()
        for room_id in waiting:
            room = self._rooms.get(room_id)
            if free > 0 and room is not None and (position := room.probe(now_ms)) is not None:
                wanted.append((room_id, position))
                free -= 1
        return wanted

    def probe_at(self, waiting: Iterable[str]) -> int | None:
        """Return when the next probe is due."""
        if self._probing() >= MAX_PROBES:
            return None
        pacers = (self._rooms.get(room_id) for room_id in waiting)
        return min((room.probe_at for room in pacers if room and room.probe_at is not None), default=None)

    def allowed_at(self, waiting: Mapping[str, int]) -> int | None:
        """Return when events of one of the rooms may be sent, if no event is confirmed until then."""
        return min(
            (
                self._rooms[room_id].allowed_at(min(count, SMALL_BATCH))
                for room_id, count in waiting.items()
                if room_id in self._rooms
            ),
            default=None,
        )

    def clear(self) -> None:
        self._rooms.clear()

    def _room(self, room_id: str, now_ms: int) -> RoomPacer:
        room = self._rooms.get(room_id)
        if room is None:
            room = self._rooms[room_id] = self._new(now_ms)
        return room

    def _new(self, now_ms: int) -> RoomPacer:
        """Return the pacer of a room, with the part of an assumed full window that has not been processed
        since `start`. `FIRST_AFTER_START` events may be sent in any case: between a window and a hundred
        there is room for twenty."""
        assert self._started_at is not None, "start is called first"
        worked_off = (now_ms - self._started_at) * ASSUMED_PER_SECOND // 1000
        return RoomPacer(max(0, WINDOW - FIRST_AFTER_START - worked_off), now_ms)

    def _probing(self) -> int:
        return sum(room.probing is not None for room in self._rooms.values())


def _by_room(pdus: Iterable[PduRef]) -> dict[str, list[int]]:
    rooms: dict[str, list[int]] = {}
    for pdu in pdus:
        rooms.setdefault(pdu.room_id, []).append(pdu.position)
    return rooms
