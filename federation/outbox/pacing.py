"""How many events of one room may be on their way to one server.

A 200 to `/send` says that the events lie in the peer's staging area, not that they are in the room. When a
hundred of one room lie there, Synapse throws away those that others refer to and pulls them back ten at a
time, asking for the state with each handful: sending faster makes it slower. So no more than `WINDOW` events
of a room are sent ahead of what the peer is known, or believed, to have worked off. The rest of the hundred
is left to what other servers send it for the same room.

Signs that it has an event: it says so when it is asked for it (`GET /event/{eventId}` is answered with 404 as
long as the event is only staged), it refers to it in an event of its own, a user of it has read it; or its
answer to `/send` comes from a server that answers only when it is done. And time counts as one, slowly: a
server that answers none of this must not be left with the first eighty events for ever. But what a server
says of itself outranks what is believed of it: under load it may be slower than anybody would believe.

The paces of all rooms on their way to one server, and what the server is asked for to set them.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from federation.outbox.send_queue import PduRef

WINDOW: Final = 80
BELIEVED_PER_SECOND: Final = 10
"""What every living server works off in a room, at the least. A Synapse on two small cores does fifty."""

FIRST_PROBE_MS: Final = 200
LONGEST_PROBE_MS: Final = 2_000
TRUSTED_MS: Final = 10_000
"""So long after a server was asked, or has answered, its own word counts and not the time."""
STUCK_MS: Final = 20_000
"""When it has shown no sign of any event for so long, time counts all the same: it may never say that it has
one that it has rejected, and there may be servers that never say it of any."""


_UNKNOWN: Final = -1


class RoomPace:
    """One room on its way to one server. Positions are those of the queue; they grow.

    `unknown` is how many events may be on their way from before this was made.
    """

    def __init__(self, unknown: int = 0, now_ms: int = 0) -> None:
        self._ahead: deque[int] = deque([_UNKNOWN] * unknown)
        # Milliseconds of belief that have not become an event yet are kept by not moving this.
        self._believed_at = now_ms
        self._staged_to = _UNKNOWN
        self._probe_wait = FIRST_PROBE_MS
        self._probe_at = 0
        self._heard_at = now_ms
        self._not_yet = 0
        self.probing: int | None = None
        """The position that the peer is being asked for."""

    def allowance(self, now_ms: int) -> int:
        """How many may be sent now."""
        self._believe(now_ms)
        return WINDOW - len(self._ahead)

    def allowed_at(self, count: int) -> int:
        """When so many may be sent if nothing is heard until then."""
        short = len(self._ahead) + min(count, WINDOW) - WINDOW
        return self._believed_at + -(-max(short, 0) * 1000 // BELIEVED_PER_SECOND)

    def sent(self, positions: Iterable[int], now_ms: int) -> None:
        self._believe(now_ms)
        new = [position for position in positions if position not in self._ahead]
        # A transaction that is sent again, or answered late, may bring back what was believed worked off.
        self._ahead = deque(sorted([*self._ahead, *new]))

    def staged(self, positions: Iterable[int], now_ms: int) -> None:
        """The peer has answered. However long that took: nothing of it need have been worked off before."""
        self.sent(positions, now_ms)
        if not self._can_be_asked:
            # Not before the peer can have looked at it.
            self._probe_at = max(self._probe_at, now_ms + FIRST_PROBE_MS)
        self._staged_to = max(self._staged_to, *positions)

    def has(self, position: int, now_ms: int) -> None:
        """The peer has this event, and all that were sent before it: a room is worked off in order."""
        if position in self._ahead:
            while self._ahead.popleft() != position:
                pass
        self._believed_at = max(self._believed_at, now_ms)
        self._heard_at = now_ms

    def probe(self, now_ms: int) -> int | None:
        """The position to ask the peer for, if it is time to. One in the middle of what it has taken, so that
        it need not run dry before more is sent; nearer to the beginning the more often it had not got there.
        """
        due = self.probe_at
        if due is None or now_ms < due:
            return None
        staged = [position for position in self._ahead if 0 <= position <= self._staged_to]
        self.probing = staged[len(staged) >> 1 + self._not_yet]
        self._trust(now_ms)
        return self.probing

    def probed(self, position: int, now_ms: int, *, has_it: bool) -> None:
        """What the peer said. Asked again a little later each time that it has not got that far."""
        if position != self.probing:
            return
        self.probing = None
        if has_it:
            self._probe_wait = FIRST_PROBE_MS
            self._probe_at = now_ms
            self._not_yet = max(0, self._not_yet - 1)
            self.has(position, now_ms)
        else:
            self._probe_at = now_ms + self._probe_wait
            self._probe_wait = min(2 * self._probe_wait, LONGEST_PROBE_MS)
            self._not_yet = min(self._not_yet + 1, WINDOW.bit_length())
        self._trust(now_ms)

    @property
    def probe_at(self) -> int | None:
        """When to ask next; None while it is being asked, while the window is not half full, and while there
        is nothing to ask for."""
        if self.probing is not None or 2 * len(self._ahead) < WINDOW or not self._can_be_asked:
            return None
        return self._probe_at

    @property
    def _can_be_asked(self) -> bool:
        """Something that is on its way is in the peer's staging area, and is known."""
        return any(0 <= position <= self._staged_to for position in self._ahead)

    def is_idle(self, now_ms: int) -> bool:
        """Nothing is on its way, so that nothing is lost by forgetting it."""
        return self.allowance(now_ms) == WINDOW and self.probing is None

    def _trust(self, now_ms: int) -> None:
        if now_ms - self._heard_at < STUCK_MS:
            self._believed_at = max(self._believed_at, now_ms + TRUSTED_MS)

    def _believe(self, now_ms: int) -> None:
        if not self._ahead:
            self._believed_at = self._heard_at = now_ms
            return
        passed = (now_ms - self._believed_at) * BELIEVED_PER_SECOND // 1000
        if passed > 0:
            for _ in range(min(passed, len(self._ahead))):
                self._ahead.popleft()
            self._believed_at += passed * 1000 // BELIEVED_PER_SECOND


SMALL_BATCH: Final = 10
"""A room whose pace is spent waits until so many may go together."""
FIRST_AFTER_START: Final = 15
MOST_PROBES: Final = 4
"""How many events a server is asked for at the same time."""


class RoomPaces:
    """`waiting` is how many events of each room could be sent."""

    def __init__(self) -> None:
        self._paces: dict[str, RoomPace] = {}
        self._began_at: int | None = None

    def begin(self, now_ms: int) -> None:
        """What was sent before is not known: perhaps a full window just before a restart."""
        if self._began_at is None:
            self._began_at = now_ms

    def allowances(self, waiting: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """The rooms that may be sent, and how much of each."""
        allowances = {}
        for room_id, count in waiting.items():
            allowance = (self._paces.get(room_id) or self._new(now_ms)).allowance(now_ms)
            if allowance >= min(count, SMALL_BATCH):
                allowances[room_id] = allowance
        return allowances

    def sent(self, pdus: Iterable[PduRef], now_ms: int) -> None:
        """These are in flight."""
        if self._paces:
            self._paces = {room_id: pace for room_id, pace in self._paces.items() if not pace.is_idle(now_ms)}
        for room_id, positions in _by_room(pdus).items():
            self._pace(room_id, now_ms).sent(positions, now_ms)

    def staged(self, pdus: Iterable[PduRef], now_ms: int) -> None:
        """These have been answered, and lie in the server's staging area."""
        for room_id, positions in _by_room(pdus).items():
            self._pace(room_id, now_ms).staged(positions, now_ms)

    def processed(self, pdus: Sequence[PduRef], now_ms: int) -> None:
        """These have been answered, by a server that answers when it has them."""
        self.staged(pdus, now_ms)
        for pdu in pdus:
            self.has(pdu.room_id, pdu.position, now_ms)

    def has(self, room_id: str, position: int, now_ms: int) -> None:
        """A sign that the server has this event."""
        pace = self._paces.get(room_id)
        if pace is not None:
            pace.has(position, now_ms)

    def probed(self, room_id: str, position: int, now_ms: int, *, has_it: bool) -> None:
        pace = self._paces.get(room_id)
        if pace is not None:
            pace.probed(position, now_ms, has_it=has_it)

    def probes(self, waiting: Iterable[str], now_ms: int) -> list[tuple[str, int]]:
        """What to ask for now: events of those rooms that are, or will soon be, held up by their pace."""
        wanted = []
        free = MOST_PROBES - self._probing()
        for room_id in waiting:
            pace = self._paces.get(room_id)
            if free > 0 and pace is not None and (position := pace.probe(now_ms)) is not None:
                wanted.append((room_id, position))
                free -= 1
        return wanted

    def probe_at(self, waiting: Iterable[str]) -> int | None:
        """When there is something to ask for."""
        if self._probing() >= MOST_PROBES:
            return None
        paces = (self._paces.get(room_id) for room_id in waiting)
        return min((pace.probe_at for pace in paces if pace and pace.probe_at is not None), default=None)

    def allowed_at(self, waiting: Mapping[str, int]) -> int | None:
        """When one of the rooms may be sent, if nothing is heard until then."""
        return min(
            (
                self._paces[room_id].allowed_at(min(count, SMALL_BATCH))
                for room_id, count in waiting.items()
                if room_id in self._paces
            ),
            default=None,
        )

    def clear(self) -> None:
        self._paces.clear()

    def _pace(self, room_id: str, now_ms: int) -> RoomPace:
        pace = self._paces.get(room_id)
        if pace is None:
            pace = self._paces[room_id] = self._new(now_ms)
        return pace

    def _new(self, now_ms: int) -> RoomPace:
        """Of the window that may have been on its way at the beginning, what time has not worked off yet; but
        that something may be sent, since there is room for twenty between a window and a hundred."""
        assert self._began_at is not None, "it has begun"
        worked_off = (now_ms - self._began_at) * BELIEVED_PER_SECOND // 1000
        return RoomPace(max(0, WINDOW - FIRST_AFTER_START - worked_off), now_ms)

    def _probing(self) -> int:
        return sum(pace.probing is not None for pace in self._paces.values())


def _by_room(pdus: Iterable[PduRef]) -> dict[str, list[int]]:
    rooms: dict[str, list[int]] = {}
    for pdu in pdus:
        rooms.setdefault(pdu.room_id, []).append(pdu.position)
    return rooms
