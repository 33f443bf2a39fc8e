"""Who is typing where, and until when that is believed. A machine: time is given to it."""

import heapq
from typing import Final

MOST_IN_ROOM: Final = 100
MOST: Final = 10_000
"""Of all rooms together. Whoever is beyond types unseen."""


class TypingBoard:
    def __init__(self, *, most: int = MOST, most_in_room: int = MOST_IN_ROOM) -> None:
        self._most = most
        self._most_in_room = most_in_room
        self._rooms: dict[str, dict[str, int]] = {}
        self._count = 0
        # Of what was put; what was put again or taken away since is passed over.
        self._ends: list[tuple[int, str, str]] = []

    def put(self, room_id: str, user: str, until_ms: int) -> bool:
        """The user types until then, unless put again. Whether that is news."""
        users = self._rooms.get(room_id, {})
        is_new = user not in users
        if is_new and (self._count >= self._most or len(users) >= self._most_in_room):
            return False
        self._count += is_new
        self._rooms.setdefault(room_id, {})[user] = until_ms
        heapq.heappush(self._ends, (until_ms, room_id, user))
        if len(self._ends) > 2 * self._most + 100:
            self._ends = [
                (until, room, who) for room, them in self._rooms.items() for who, until in them.items()
            ]
            heapq.heapify(self._ends)
        return is_new

    def remove(self, room_id: str, user: str) -> bool:
        """Whether the user was typing."""
        users = self._rooms.get(room_id, {})
        if users.pop(user, None) is None:
            return False
        self._count -= 1
        if not users:
            del self._rooms[room_id]
        return True

    def expire(self, now_ms: int) -> list[tuple[str, str]]:
        """Rooms and users of whom it is believed no more, in the order in which they ended."""
        ended = []
        while (deadline := self.deadline()) is not None and deadline <= now_ms:
            _, room_id, user = heapq.heappop(self._ends)
            self.remove(room_id, user)
            ended.append((room_id, user))
        return ended

    def deadline(self) -> int | None:
        """When the next one ends."""
        while self._ends:
            until, room_id, user = self._ends[0]
            if self._rooms.get(room_id, {}).get(user) == until:
                return until
            heapq.heappop(self._ends)
        return None

    def users(self, room_id: str) -> tuple[str, ...]:
        return tuple(sorted(self._rooms.get(room_id, {})))
