"""The names by which somebody could be called in each room, believed for a moment."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.matrix_side import MatrixSide
from bridge.people.naming import names_of, without_list
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from storage.connecting import ConnectionLost

BELIEVED: Final = 60.0
"""Seconds. Whoever has come since, or has another name, may be called by a text in which it stands."""
MOST_ROOMS: Final = 500


class RoomNames:
    def __init__(self, side: MatrixSide, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._side = side
        self._monotonic = monotonic
        self._known: BoundedCache[str, tuple[float, frozenset[str] | None]] = BoundedCache(MOST_ROOMS)
        self._looking: set[str] = set()

    def without_list(self, room_id: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """What calls nobody, without saying so where that is clear from its words. Nothing is waited for:
        what is said first is sent first."""
        known = self._known.get(room_id)
        if known is None or self._monotonic() >= known[0]:
            return content
        return without_list(content, known[1])

    async def learn(self, room_id: str) -> None:
        """For what is said next."""
        known = self._known.get(room_id)
        if room_id in self._looking or (known is not None and self._monotonic() < known[0]):
            return
        self._looking.add(room_id)
        try:
            names = names_of(await self._side.members(room_id))
        except (MatrixError, ConnectionLost):
            names = None
        finally:
            self._looking.discard(room_id)
        self._known.put(room_id, (self._monotonic() + BELIEVED, names))
