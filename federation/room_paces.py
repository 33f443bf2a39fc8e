"""The paces of all rooms on their way to one server, and what the server is asked for to set them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from federation.room_pace import BELIEVED_PER_SECOND, WINDOW, RoomPace
from federation.send_queue import PduRef

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

    def may_send_one(self, room_id: str, now_ms: int) -> bool:
        """Whether a room of which a single event waits has an allowance."""
        pace = self._paces.get(room_id)
        # What has none has a few at the least: see `_new`.
        return pace is None or pace.allowance(now_ms) > 0

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
        if len(pdus) == 1:
            (pdu,) = pdus
            pace = self._paces.get(pdu.room_id)
            if pace is not None and pace.is_only(pdu.position):
                # Nothing else is on its way, so that nothing is lost by forgetting it.
                del self._paces[pdu.room_id]
                return
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
