"""Decides what is sent next, so that no more is in flight than the measured server can process.

To a Synapse an answer only says "staged". When a hundred events of one room are, it throws out all that
another one follows and asks for them again, ten at a time. So what is on its way is what no reader has seen,
and both servers are sent to alike.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from federation.events import EventId, Pdu

MOST_IN_ROOM = 99
"""Events of one room that no reader has seen."""
MOST_IN_ALL = 400
"""Events of all rooms together: eight full transactions, so that the last of them are soon read as well."""
MOST_IN_TRANSACTION = 50


class Pace:
    """`waiting` has the events of each room, oldest first. Rooms take turns, event by event."""

    def __init__(self, waiting: Mapping[str, Iterable[Pdu]]) -> None:
        self._waiting = {room_id: deque(pdus) for room_id, pdus in waiting.items()}
        self._on_their_way: dict[str, int] = dict.fromkeys(waiting, 0)
        self._rooms: dict[EventId, str] = {}
        self._turn = deque(waiting)

    @property
    def on_their_way(self) -> int:
        """Events that were sent, but not yet seen by a reader."""
        return len(self._rooms)

    def next_transaction(self, rooms: Collection[str]) -> list[Pdu]:
        """Return a full transaction of events of these rooms, or the last ones; None while the limits allow
        no full one."""
        taken = self._take(rooms)
        if len(taken) < MOST_IN_TRANSACTION and self.is_left(rooms):
            self._put_back(taken)
            return []
        return taken

    def is_left(self, rooms: Collection[str]) -> bool:
        """Return whether events of these rooms have not been sent."""
        return any(self._waiting[room_id] for room_id in rooms)

    def seen(self, event_ids: Iterable[EventId]) -> int:
        """Record events that a reader has seen; return how many of them were in flight."""
        count = 0
        for event_id in event_ids:
            room_id = self._rooms.pop(event_id, None)
            if room_id is not None:
                self._on_their_way[room_id] -= 1
                count += 1
        return count

    def left_over(self) -> dict[str, list[Pdu]]:
        """The events that were not sent."""
        return {room_id: list(pdus) for room_id, pdus in self._waiting.items()}

    def _take(self, rooms: Collection[str]) -> list[Pdu]:
        taken: list[Pdu] = []
        passed_over = 0
        while passed_over < len(self._turn) and len(taken) < MOST_IN_TRANSACTION:
            room_id = self._turn[0]
            self._turn.rotate(-1)
            waiting = self._waiting[room_id]
            full = self._on_their_way[room_id] >= MOST_IN_ROOM or self.on_their_way >= MOST_IN_ALL
            if full or room_id not in rooms or not waiting:
                passed_over += 1
                continue
            passed_over = 0
            pdu = waiting.popleft()
            taken.append(pdu)
            self._rooms[pdu.event_id] = room_id
            self._on_their_way[room_id] += 1
        return taken

    def _put_back(self, taken: list[Pdu]) -> None:
        for pdu in reversed(taken):
            self._waiting[pdu.room_id].appendleft(pdu)
            self._on_their_way[pdu.room_id] -= 1
            del self._rooms[pdu.event_id]
