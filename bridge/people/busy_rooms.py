"""Rooms in which so much is asked that what says nothing new is left out.

A machine: each request lets a room's level rise by one, and time lets it fall. Time is an argument.
"""

from typing import Final, NamedTuple

from federation.bounded_cache import BoundedCache

FALLS: Final = 4.0
"""A second: who asks less often than this for long is alone with a person or two."""
BUSY_FROM: Final = 10.0
HIGHEST: Final = 20.0
"""However much is asked, a room is calm again a few seconds later."""


class _Level(NamedTuple):
    height: float
    at: float


class BusyRooms:
    def __init__(self, most: int) -> None:
        self._levels: BoundedCache[str, _Level] = BoundedCache(most)

    def asked(self, room_id: str, now: float) -> bool:
        """One more request. Whether the room is busy."""
        before = self._levels.get(room_id) or _Level(0.0, now)
        height = max(0.0, before.height - FALLS * (now - before.at)) + 1.0
        self._levels.put(room_id, _Level(min(height, HIGHEST), now))
        return height > BUSY_FROM
